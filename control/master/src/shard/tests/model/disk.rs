//! The part of the model that is a disk: a log that keeps what it was given until its owner hears
//! that this is void, or its segment is used again.
//! Invariant: an address is given once.

use std::collections::BTreeMap;

use perigee_schemas::disk_address::DiskAddress;

use crate::segment::SegmentSpec;
use crate::shard::DemotionTask;
use perigee_schemas::SegmentKind;

/// Number of the first disk; segments of memory have lower ones.
pub(super) const DISK: u32 = 1_000;
const DISK_ID: u128 = 9_000;
/// The owner of segment 0 and of the disk.
pub(super) const OWNER: u128 = 100;
/// Copies in one segment of the log.
pub(super) const SEGMENT_COPIES: u32 = 3;

/// A copy in the log.
#[derive(Debug, Clone, Copy)]
pub(super) struct Logged {
    pub(super) generation: u64,
    pub(super) payload_bytes: u64,
    pub(super) checksum: u32,
    pub(super) key: usize,
    pub(super) hash: u64,
}

/// The disk and what its owner knows.
pub(super) struct Disk {
    pub(super) number: u32,
    pub(super) is_mounted: bool,
    pub(super) log: BTreeMap<u64, Logged>,
    pub(super) oldest: u32,
    pub(super) appended: u32,
    /// Tasks that the owner has taken. What it wrote for them may be in the log already.
    pub(super) writing: Vec<(DemotionTask, u64)>,
}

impl Disk {
    pub(super) fn new() -> Self {
        Self {
            number: DISK,
            is_mounted: true,
            log: BTreeMap::new(),
            oldest: 0,
            appended: 0,
            writing: Vec::new(),
        }
    }

    pub(super) fn spec() -> SegmentSpec {
        SegmentSpec { kind: SegmentKind::Disk, ..SegmentSpec::bare(DISK_ID, OWNER, 1 << 40) }
    }

    pub(super) fn append(&mut self, copy: Logged) -> u64 {
        let (sequence, at) = (self.appended / SEGMENT_COPIES, self.appended % SEGMENT_COPIES);
        self.appended += 1;
        let address = DiskAddress { sequence, offset: at * 4096 }.pack();
        self.log.insert(address, copy);
        address
    }

    pub(super) fn erase(&mut self, hash: u64, generation: u64) {
        let is_void = |copy: &Logged| copy.hash == hash && copy.generation == generation;
        self.log.retain(|_, copy| !is_void(copy));
    }
}
