//! Block devices.

use crate::histogram::DurationHistogram;

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum BlockOperation {
    /// Read.
    Read = 0,
    /// Write.
    Write = 1,
    /// Flush, discard and all others.
    Other = 2,
}

impl BlockOperation {
    /// All of them, by their numbers.
    pub const ALL: [Self; 3] = [Self::Read, Self::Write, Self::Other];

    /// Value of the `direction` label.
    pub fn label(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Other => "other",
        }
    }
}

/// A device and an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(C)]
pub struct BlockKey {
    /// Major number.
    pub major: u32,
    /// Minor number of the whole disk.
    pub minor: u32,
    /// [`BlockOperation`] as a number.
    pub operation: u32,
}

/// Requests of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct BlockTotals {
    /// From allocation of the request to its way to the device.
    pub queue: DurationHistogram,
    /// From there to completion.
    pub device: DurationHistogram,
    /// Bytes moved.
    pub bytes: u64,
    /// Requests sent to the device; those not in `device` yet are under way.
    pub issued: u64,
}
