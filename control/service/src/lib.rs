//! The control-plane daemon: configuration, RPC shards, HTTP thread.

pub mod config;

mod cluster;
mod rpc;

pub use cluster::{Cluster, ClusterError};
