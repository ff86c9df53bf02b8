//! Discovery against real etcd, real Redis and HTTP metadata servers, and against hostile peers.
//! Invariant: every server is private to its test: own port, own folder, gone with the test.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a failed step of a test's scaffolding fails the test"
)]

mod backends;
mod crash;
mod engine;
mod etcd_cluster;
mod etcd_tls;
mod handshake;
mod hostile;
mod names;
mod outage;
mod real_mooncake;
mod redis_login;
mod server;
mod strict_http;
mod tls;
mod wait;
