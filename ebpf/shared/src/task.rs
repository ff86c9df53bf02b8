//! Threads and io_uring requests of our processes.

use crate::Histogram;

/// How a thread waited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct TaskTotals {
    /// Ready to run but without a core: what a starved shard shows.
    pub run_queue: Histogram,
    /// Asleep until something woke it.
    pub off_cpu: Histogram,
}

/// io_uring requests of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct UringTotals {
    /// From submission to completion; a sample of one in `1 << UringTotals::SAMPLE_SHIFT`.
    pub latency: Histogram,
}

impl UringTotals {
    /// Measuring every request would cost more than small requests do themselves.
    pub const SAMPLE_SHIFT: u32 = 5;
}
