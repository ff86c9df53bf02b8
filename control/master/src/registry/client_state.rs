//! What is known of one client. Invariant: a client that is gone has no segments.

use std::net::IpAddr;

use super::disk_report::DiskReport;

#[derive(Debug, Default)]
pub(crate) struct Client {
    /// When its last heartbeat came, in the time that [`Registry::heard_ms`] counts.
    pub(super) heard_ms: u64,
    /// Numbers of its mounted segments.
    pub(super) segments: Vec<u32>,
    /// Where it mounts from, if that is known.
    pub(super) address: Option<IpAddr>,
    /// What its last heartbeat said of its disks.
    pub(super) disks: Vec<DiskReport>,
}

/// What a heartbeat is answered with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientState {
    /// Known.
    Ok,
    /// It, or one of its segments, is not known (any more): mount all segments again, or none if
    /// there are none.
    NeedRemount,
}
