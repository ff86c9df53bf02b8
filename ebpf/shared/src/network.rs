//! Network interfaces and TCP connections.

use crate::histogram::DurationHistogram;

/// Interfaces are array slots, so that counting a packet costs no hash: index 0 is "unknown".
pub const INTERFACES_MAX: u32 = 4096;

/// Connections opened by peers that are tracked one by one; those idle for longest give way.
pub const ANSWERING_MAX: u32 = 4096;

/// What passed an interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct NicTotals {
    /// Bytes received, link headers included as the kernel's counters do.
    pub receive_bytes: u64,
    /// Packets received.
    pub receive_packets: u64,
    /// Bytes sent; a large segment counts with the headers of each packet it becomes.
    pub transmit_bytes: u64,
    /// Packets sent.
    pub transmit_packets: u64,
}

/// The TCP connections behind an interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct TcpTotals {
    /// Round trip times of our connections, one value per sample the kernel takes; smoothed by
    /// kernels before 6.9.
    pub round_trip: DurationHistogram,
    /// Segments sent again.
    pub retransmits: u64,
    /// Resets sent.
    pub resets_sent: u64,
    /// Resets received.
    pub resets_received: u64,
}
