//! What was counted, summed over CPUs.

use perigee_probe_types::{
    BlockKey, BlockTotals, DurationHistogram, INTERFACES_MAX, NicTotals, TcpTotals,
};

/// An interface's packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NicReading {
    /// Number of the interface in this network namespace.
    pub interface: u32,
    /// What passed it since the probes were loaded.
    pub totals: NicTotals,
}

/// TCP connections behind an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpReading {
    /// Number of the interface; 0 where the kernel did not say.
    pub interface: u32,
    /// Counters.
    pub totals: TcpTotals,
}

/// Requests of a block device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockReading {
    /// Device and operation.
    pub key: BlockKey,
    /// Counters.
    pub totals: BlockTotals,
}

/// Dropped packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DropReading {
    /// The kernel's name of the reason, in lower case.
    pub reason: String,
    /// Packets dropped since the probes were loaded.
    pub packets: u64,
}

/// What a program has cost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramCost {
    /// Name of the program.
    pub program: &'static str,
    /// How often it ran, while statistics were on.
    pub runs: u64,
    /// How long, in nanoseconds.
    pub run_ns: u64,
}

pub(crate) fn sum_nics(values: &[NicTotals]) -> NicTotals {
    let mut sum = NicTotals::default();
    for value in values {
        sum.receive_bytes += value.receive_bytes;
        sum.receive_packets += value.receive_packets;
        sum.transmit_bytes += value.transmit_bytes;
        sum.transmit_packets += value.transmit_packets;
    }
    sum
}

pub(crate) fn sum_tcp(values: &[TcpTotals]) -> TcpTotals {
    let mut sum = TcpTotals::default();
    for value in values {
        sum.round_trip.merge(&value.round_trip);
        sum.retransmits += value.retransmits;
        sum.resets_sent += value.resets_sent;
        sum.resets_received += value.resets_received;
    }
    sum
}

pub(crate) fn sum_blocks(values: &[BlockTotals]) -> BlockTotals {
    let mut sum = BlockTotals::default();
    for value in values {
        sum.queue.merge(&value.queue);
        sum.device.merge(&value.device);
        sum.bytes += value.bytes;
        sum.issued += value.issued;
    }
    sum
}

pub(crate) fn sum_histograms<'a>(
    values: impl Iterator<Item = &'a DurationHistogram>,
) -> DurationHistogram {
    let mut sum = DurationHistogram::EMPTY;
    values.for_each(|value| sum.merge(value));
    sum
}

/// Whether an interface has a slot of its own.
pub(crate) fn has_slot(interface: u32) -> bool {
    interface < INTERFACES_MAX
}
