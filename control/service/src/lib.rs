//! The control-plane daemon: configuration, RPC shards, HTTP thread.

pub mod config;
