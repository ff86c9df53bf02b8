//! The control-plane daemon: configuration, RPC shards, HTTP thread.

pub mod config;

mod cluster;
mod daemon;
mod plane;
mod rpc;

pub use cluster::{Cluster, ClusterError};
pub use daemon::{DaemonError, run};
