//! How a copy of a replica begins, whatever wants it: a task or a drain job.
//! Invariant: an object has one move at a time, and its target lies where no replica of the object
//! does.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use perigee_schemas::extent::extent_bytes;

use crate::destination::Destination;
use crate::loan::Need;
use crate::moving::Purpose;

use super::KeyShard;

/// What came of a wish for a copy.
pub(super) enum CopyStep {
    /// A move waits for this client.
    Begun(u128),
    /// There is nothing to copy. If the source was to go, it has gone.
    NotNeeded,
    /// No segment has room.
    NoRoom,
}

/// Room that the copies of a turn did not find.
#[derive(Default)]
pub(super) struct MissingRoom {
    segments: BTreeSet<u32>,
    waiting_bytes: u64,
    longest_bytes: u64,
}

impl KeyShard {
    /// Begins a copy of a complete replica whose object has no move, or drops the source if the
    /// copy is not needed.
    pub(super) fn copy(
        &mut self,
        job: u128,
        purpose: Purpose,
        source: u32,
        destination: Destination,
        missing: &mut MissingRoom,
    ) -> CopyStep {
        let Destination::Open(open) = destination else {
            if matches!(purpose, Purpose::Drain | Purpose::Move) {
                if purpose == Purpose::Drain {
                    self.wishing().note_loss(source);
                }
                self.drop_complete(source);
            }
            return CopyStep::NotNeeded;
        };
        let bytes = extent_bytes(self.stored.replicas[source].payload_bytes);
        let object = self.stored.replicas[source].object;
        let payer = self.quotas.payer_of(self.stored.keys[object].key());
        if !self.quotas.charge_copy(payer, purpose, bytes) {
            return CopyStep::NoRoom;
        }
        match self.space.alloc_least_used(&open, bytes) {
            Some((segment, extent)) => {
                CopyStep::Begun(self.relocating().begin_move(job, purpose, source, segment, extent))
            }
            None => {
                self.quotas.refund(payer, bytes);
                missing.note(open, bytes);
                CopyStep::NoRoom
            }
        }
    }

    /// What to ask the other shards for so that the copies of a turn find room in some segments; in
    /// any if there are none.
    pub(super) fn needs_of_copies(&mut self, targets: &[u32], missing: &MissingRoom) -> Vec<Need> {
        if missing.is_none() {
            return Vec::new();
        }
        let mut needs = self.needs_of_puts(missing.waiting_bytes, missing.longest_bytes);
        needs.retain(|need| targets.is_empty() || targets.contains(&need.segment));
        needs.sort_by_key(|need| Reverse(need.held_bytes.saturating_sub(need.used_bytes)));
        needs
    }
}

impl MissingRoom {
    pub(super) fn note(&mut self, segments: Vec<u32>, bytes: u64) {
        self.segments.extend(segments);
        self.waiting_bytes = self.waiting_bytes.saturating_add(bytes);
        self.longest_bytes = self.longest_bytes.max(bytes);
    }

    fn is_none(&self) -> bool {
        self.waiting_bytes == 0
    }

    /// Bytes that found no room.
    pub(super) fn waiting_bytes(&self) -> u64 {
        self.waiting_bytes
    }

    /// The segments that were full.
    pub(super) fn segments(&self) -> Vec<u32> {
        self.segments.iter().copied().collect()
    }
}
