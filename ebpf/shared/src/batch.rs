//! Batches as the data plane marks them.

use crate::histogram::DurationHistogram;

/// Bytes of a NIC's name, zero-filled.
pub const NIC_BYTES: usize = 32;
/// Bytes of a peer's name, zero-filled.
pub const PEER_BYTES: usize = 64;
/// Bytes of a tenant's name, zero-filled.
pub const TENANT_BYTES: usize = 32;

/// A finished batch, as the process lays it out for the probe (`dataplane/activity/src/mark.rs`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct BatchMark {
    /// Operations.
    pub operations: u64,
    /// Payload bytes.
    pub bytes: u64,
    /// From submission to the first byte on its way.
    pub queue_ns: u64,
    /// On the wire, the peer's answer included.
    pub wire_ns: u64,
    /// On a disk of this host.
    pub disk_ns: u64,
    /// The part of `wire_ns` that the connection does not explain.
    pub peer_ns: u64,
    /// Route number.
    pub route: u32,
    /// 0 towards the process, 1 away from it.
    pub direction: u32,
    /// Status code, 0 when all went well.
    pub status: i32,
    /// Zero.
    pub reserved: u32,
    /// NIC.
    pub nic: [u8; NIC_BYTES],
    /// Peer.
    pub peer: [u8; PEER_BYTES],
    /// Tenant.
    pub tenant: [u8; TENANT_BYTES],
}

/// The labels of latencies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct BatchKey {
    /// NIC.
    pub nic: [u8; NIC_BYTES],
    /// Peer.
    pub peer: [u8; PEER_BYTES],
    /// Tenant.
    pub tenant: [u8; TENANT_BYTES],
    /// Route number.
    pub route: u32,
    /// 0 towards the process, 1 away from it.
    pub direction: u32,
    /// 1 if the process is in another network namespace than the agent.
    pub is_foreign: u32,
    /// Zero.
    pub reserved: u32,
}

/// Batches of one key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct BatchTotals {
    /// Queue, wire and disk together.
    pub latency: DurationHistogram,
    /// Operations.
    pub operations: u64,
    /// Payload bytes.
    pub bytes: u64,
    /// Time in queues.
    pub queue_ns: u64,
    /// Time on the wire.
    pub wire_ns: u64,
}

/// A batch that took longer than the threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct SlowBatch {
    /// Boot time when it ended, in nanoseconds.
    pub ended_ns: u64,
    /// Process.
    pub pid: u32,
    /// 1 if it is in another network namespace than the agent.
    pub is_foreign: u32,
    /// The batch.
    pub mark: BatchMark,
}
