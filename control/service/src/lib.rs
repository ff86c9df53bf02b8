//! The control-plane daemon: configuration, RPC shards, HTTP thread.
//!
//! [`Cluster`] runs the shards of a master on executors of their own. A [`MasterShard`] is generic
//! over `Environment`, so the simulation runs it, too.
#![forbid(unsafe_code)]

pub mod config;

mod cluster;
mod daemon;
mod freed_memory;
mod key_report;
mod master_view;
mod quotas;
mod rpc;

pub use cluster::{Cluster, ClusterError, MasterShard, Member, ShardStart};
pub use daemon::{DaemonError, run};
pub use quotas::QuotaFileError;
