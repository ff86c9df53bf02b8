//! How a copy of a replica begins, whatever wants it: a task or a drain job.
//! Invariant: an object has one move at a time, and its target lies where no replica of the object
//! does.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use perigee_allocator::Extent;
use perigee_schemas::extent::extent_bytes;

use crate::loan::Need;
use crate::moving::{Purpose, ReplicaMove, move_deadline_ms};
use crate::tenant::TenantLane;

use super::KeyShard;

/// Where the copy of a replica may go.
pub(super) enum Destination {
    /// Nowhere: a replica lies where the copy was to go.
    Held,
    /// Into the least used of these segments with room.
    Open(Vec<u32>),
}

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
                    self.note_loss(source);
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
                CopyStep::Begun(self.begin_move(job, purpose, source, segment, extent))
            }
            None => {
                self.quotas.refund(payer, bytes);
                missing.note(open, bytes);
                CopyStep::NoRoom
            }
        }
    }

    /// Notes a move, which is charged already, for the owner of the source's segment to take;
    /// returns who that is.
    pub(super) fn begin_move(
        &mut self,
        job: u128,
        purpose: Purpose,
        source: u32,
        segment: u32,
        extent: Extent,
    ) -> u128 {
        let replica = &self.stored.replicas[source];
        let (object, payload_bytes) = (replica.object, replica.payload_bytes);
        debug_assert!(self.relocation.of(object).is_none(), "one move per object");
        let client = self.view().carrier_of(source);
        let lane =
            TenantLane { segment, tenant: self.quotas.payer_of(self.stored.keys[object].key()) };
        let target = self.stored.replicas.make(lane, extent, payload_bytes);
        self.stored.replicas.set_part(target, self.stored.replicas[source].part());
        self.stored.replicas.assign(target, object);
        let under_way = ReplicaMove {
            job,
            purpose,
            client,
            source,
            target,
            generation: self.stored.replicas[target].generation,
            taken_ms: None,
            deadline_ms: move_deadline_ms(self.stored.clock.now_ms(), payload_bytes),
        };
        self.relocation.begin(object, under_way);
        client
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
