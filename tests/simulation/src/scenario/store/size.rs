//! How large a store is played: a roomy one, a crowded one, where calls for the same few keys and
//! bytes collide, or one whose memory is small beside its disks.
//! Invariant: any payload fits into each segment, but for some that fit into few, and lie in parts
//! where they fit into none; and what is pinned leaves room for others.

use crate::random::Random;
use std::time::Duration;

/// Bounds of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    pub(super) keys: u64,
    pub(super) payload_bytes_max: u64,
    /// Least and most of a payload that few segments take, or none; nothing if there are no such
    /// payloads.
    pub(super) large_bytes: Option<(u64, u64)>,
    /// Least and most of a segment.
    pub(super) segment_bytes: (u64, u64),
    /// Longest pause of a client between two calls.
    pub(super) pause_max: Duration,
    pub(super) has_disks: bool,
}

impl Size {
    pub(super) fn new(random: &Random, has_disks: bool) -> Self {
        if has_disks {
            return Self {
                keys: random.between(6, 20),
                payload_bytes_max: 60_000,
                segment_bytes: (64 << 10, 160 << 10),
                large_bytes: Some((90 << 10, 220 << 10)),
                pause_max: Duration::from_millis(1000),
                has_disks,
            };
        }
        if random.one_in(2) {
            return Self {
                keys: 5,
                payload_bytes_max: 150_000,
                segment_bytes: (512 << 10, 2 << 20),
                large_bytes: None,
                pause_max: Duration::from_secs(4),
                has_disks,
            };
        }
        Self {
            keys: random.between(1, 4),
            payload_bytes_max: 24_000,
            segment_bytes: (64 << 10, 160 << 10),
            large_bytes: Some((90 << 10, 220 << 10)),
            pause_max: Duration::from_millis(500),
            has_disks,
        }
    }
}
