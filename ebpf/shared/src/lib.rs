//! What the probes write and user space reads: plain values without padding that both compilers lay
//! out alike.
#![deny(unsafe_code)]
#![no_std]

mod block;
mod histogram;
mod network;
mod task;
#[cfg(feature = "user")]
mod user;

pub use block::{BlockKey, BlockOperation, BlockTotals};
pub use histogram::{BUCKETS, DurationHistogram, bucket};
pub use network::{
    ANSWERING_MAX, GroupKey, INTERFACES_MAX, NicTotals, OTHER_GROUPS_MAX, OUR_GROUPS_MAX, TcpTotals,
};
pub use task::{TaskBooks, TaskTotals, UringTotals};

/// Drop reasons with a slot of their own; the kernel has about 130. The last slot is for all
/// others, see [`drop_slot`].
pub const DROP_REASONS_MAX: u32 = 512;
/// Slot of the reasons that have none of their own: subsystems such as mac80211 and Open vSwitch
/// number theirs from 1 << 16.
pub const DROP_OTHER: u32 = DROP_REASONS_MAX - 1;

/// Where drops of a reason are counted.
#[inline(always)]
pub const fn drop_slot(reason: u32) -> u32 {
    if reason < DROP_OTHER { reason } else { DROP_OTHER }
}

/// Why a probe could not count something. The index into the probes' `LOST` array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Loss {
    /// The map of requests under way was full.
    BlockStart = 0,
    /// The map of io_uring requests under way was full.
    UringStart = 1,
    /// The map of round trips by control group was full.
    GroupMap = 2,
}

impl Loss {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::BlockStart, Self::UringStart, Self::GroupMap];

    /// Value of the `reason` label.
    pub fn label(self) -> &'static str {
        match self {
            Self::BlockStart => "block_requests",
            Self::UringStart => "uring_requests",
            Self::GroupMap => "control_groups",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_of_subsystems_are_not_taken_for_the_kernels_own() {
        assert_eq!((drop_slot(0), drop_slot(77)), (0, 77));
        for reason in [DROP_OTHER, DROP_REASONS_MAX, 1 << 16, 3 << 16 | 5, u32::MAX] {
            assert_eq!(drop_slot(reason), DROP_OTHER);
        }
    }
}
