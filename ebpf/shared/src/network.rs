//! Network interfaces and TCP connections.

use crate::histogram::DurationHistogram;

/// Interfaces are array slots, so that counting a packet costs no hash: index 0 is "unknown".
pub const INTERFACES_MAX: u32 = 4096;

/// Connections opened by peers that are tracked one by one; those idle for longest give way.
pub const ANSWERING_MAX: u32 = 65_536;

/// Control groups of our processes.
pub const OUR_GROUPS_MAX: u32 = 16_384;

/// Pairs of other control group and interface whose round trips wait for the word that they are
/// ours; those idle for longest give way.
pub const OTHER_GROUPS_MAX: u32 = 512;

/// Round trips behind an interface in a control group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(C)]
pub struct GroupKey {
    /// The kernel's number of the group.
    pub group: u64,
    /// Number of the interface.
    pub interface: u32,
    /// Zero.
    pub reserved: u32,
}

/// What passed an interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct NicTotals {
    /// Bytes received, link headers included as the kernel's counters do.
    pub receive_bytes: u64,
    /// Packets received; one that GRO has merged counts as its segments.
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
