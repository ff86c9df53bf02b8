//! What became of replicas that went, for an operator who asks why an object is not there.
//! Invariant: the latest departures are kept, a bounded number of them; what moved, or was replaced
//! by other bytes, is none.

use std::collections::VecDeque;

use crate::limits::DEPARTURES_MAX;

/// Why a replica went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DepartureCause {
    /// It was evicted: its segment was above the watermark.
    Watermark,
    /// It was evicted: a put found no room.
    PutNeededRoom,
    /// It was evicted with its group, whose turn came on another shard.
    WithItsGroup,
    /// It was evicted: its tenant was at its quota.
    TenantQuota,
    /// It was evicted: it had been made for heat.
    Extra,
    /// Its key was removed.
    Removed,
    /// A removal by pattern matched its key.
    RemovedByPattern,
    /// Its writer cleared its own replicas.
    Cleared,
    /// Its segment or disk is gone.
    SegmentGone,
    /// A reader did not find its bytes on its disk.
    Unreadable,
    /// The log of its disk has used its place again.
    PlaceReused,
}

/// Why no disk has a copy of what left memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskOutcome {
    /// No disk was to have one, or one has.
    Settled,
    /// The write budget of its owner's disks did not allow one.
    OverBudget,
    /// It was to have one, and none was written in time.
    NotWritten,
}

/// A replica that went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Departure {
    /// Milliseconds since then.
    pub ago_ms: u64,
    /// Why it went.
    pub cause: DepartureCause,
    /// Payload length in bytes.
    pub payload_bytes: u64,
    /// Milliseconds that it had not been touched for, at least.
    pub idle_ms: u64,
    /// Whether it was read before.
    pub was_read: bool,
    /// Whether it lay on a disk.
    pub was_on_disk: bool,
    /// Replicas that its object kept.
    pub left: u32,
    /// What became of its copy on a disk.
    pub disk: DiskOutcome,
}

/// The latest departures of a shard, oldest first, with hashes of their keys.
#[derive(Debug, Default)]
pub(crate) struct Departures {
    /// Their `ago_ms` is the time at which they went.
    latest: VecDeque<(u64, Departure)>,
}

impl Departures {
    /// A replica goes; `departure` says when in place of how long ago.
    pub(crate) fn note(&mut self, hash: u64, departure: Departure) {
        if self.latest.len() >= DEPARTURES_MAX {
            self.latest.pop_front();
        }
        self.latest.push_back((hash, departure));
    }

    /// Departures of a key, the latest first.
    pub(crate) fn of(&self, hash: u64, now_ms: u64) -> impl Iterator<Item = Departure> + '_ {
        let own = self.latest.iter().rev().filter(move |(of, _)| *of == hash);
        own.map(move |(_, went)| Departure { ago_ms: now_ms.saturating_sub(went.ago_ms), ..*went })
    }

    /// Milliseconds since the oldest departure that is kept; `None` if none was forgotten.
    pub(crate) fn reach_ms(&self, now_ms: u64) -> Option<u64> {
        let oldest = self.latest.front().filter(|_| self.latest.len() >= DEPARTURES_MAX)?;
        Some(now_ms.saturating_sub(oldest.1.ago_ms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Departure {
        Departure {
            ago_ms: ms,
            cause: DepartureCause::Removed,
            payload_bytes: 1,
            idle_ms: 0,
            was_read: false,
            was_on_disk: false,
            left: 0,
            disk: DiskOutcome::Settled,
        }
    }

    #[test]
    fn the_latest_are_kept_and_it_is_known_how_far_they_reach_back() {
        let mut departures = Departures::default();
        departures.note(7, at(10));
        departures.note(8, at(20));
        departures.note(7, at(30));
        let of_seven: Vec<u64> = departures.of(7, 35).map(|it| it.ago_ms).collect();
        assert_eq!((of_seven, departures.reach_ms(35)), (vec![5, 25], None));
        (0..DEPARTURES_MAX as u64).for_each(|n| departures.note(1, at(40 + n)));
        assert_eq!(departures.of(7, 50).count(), 0);
        assert_eq!(departures.reach_ms(140), Some(100));
    }
}
