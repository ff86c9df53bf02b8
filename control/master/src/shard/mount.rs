//! Segments come and go.
//! Invariant: from the unmount on no replica of the segment is returned; forgetting them is the
//! ticks' work.

use std::sync::Arc;

use perigee_allocator::OffsetAllocator;
use perigee_schemas::SegmentKind;

use crate::segment::{Announces, SegmentEvent, SegmentSpec};
use crate::share::SegmentShare;

use super::KeyShard;

impl KeyShard {
    /// Applies what the registry decided; to be called for each event, in order.
    pub fn apply(&mut self, now_ms: u64, event: &SegmentEvent) {
        self.begin(now_ms);
        match event {
            SegmentEvent::Mounted { index, spec } => {
                let (index_here, count) = (self.settings.index, self.settings.count);
                let space = match spec.kind {
                    SegmentKind::Memory if spec.announces != Announces::Nothing => {
                        OffsetAllocator::holding_nothing(spec.bytes)
                    }
                    SegmentKind::Memory => SegmentShare::first_part(spec.bytes, index_here, count),
                    SegmentKind::Disk => OffsetAllocator::holding_nothing(spec.bytes),
                };
                if self.space.add(*index, spec, space, self.stored.clock.now_ms()) {
                    self.stored.replicas.open(*index);
                    if spec.kind == SegmentKind::Disk {
                        self.tier.mount(*index, spec, self.stored.clock.now_ms());
                    }
                }
            }
            SegmentEvent::Draining { index } => self.space.drain(*index),
            SegmentEvent::Resumed { index } => self.space.resume(*index),
            SegmentEvent::Usable { index, bytes } => {
                self.space.set_usable(*index, *bytes);
            }
            SegmentEvent::Health { index, health } => self.demoting().note_health(*index, *health),
            SegmentEvent::Unbacked { index, ranges } => self.space.set_unbacked(*index, ranges),
            SegmentEvent::Recycled { index, oldest } => self.space.recycle(*index, *oldest),
            SegmentEvent::Raised { generation } => {
                self.stored.replicas.raise_generations(*generation);
                self.outbox.raise(*generation);
            }
            SegmentEvent::Unmounted { index } => self.unmount(*index),
        }
        self.quotas.weigh(&self.space, self.stored.clock.now_ms());
        self.wishes.recall();
    }

    fn unmount(&mut self, segment: u32) {
        self.unfollow(segment);
        let disk = self.space.readable(segment).filter(|share| share.is_disk());
        let disk = disk.map(|share| share.spec.id);
        self.space.unmount(segment);
        if let Some(id) = disk {
            self.tier.tombstones.leave(segment, id);
            self.demoting().leave_disk(segment);
        }
    }

    /// What the registry announced about a mounted segment.
    pub fn segment(&self, index: u32) -> Option<&Arc<SegmentSpec>> {
        self.space.readable(index).map(|share| &share.spec)
    }

    /// The number of a mounted segment.
    pub fn number_of(&self, id: u128) -> Option<u32> {
        let mut mounted = self.space.iter().filter(|(_, share)| share.is_readable());
        mounted.find(|(_, share)| share.spec.id == id).map(|(number, _)| number)
    }

    /// Forgets up to `budget` replicas of unmounted segments; returns what is left of the budget.
    pub(super) fn forget_gone(&mut self, mut budget: usize) -> usize {
        while let Some(segment) = self.space.next_gone() {
            let Some(replica) = self.stored.replicas.any_in(segment) else {
                if self.stored.keys.packed().count_in(segment) > 0 {
                    if budget == 0 {
                        return 0;
                    }
                    budget -= self.lose_packed(segment, budget);
                    continue;
                }
                self.stored.replicas.close(segment);
                self.space.forget(segment);
                continue;
            };
            if budget == 0 {
                return 0;
            }
            budget -= 1;
            self.lose_replica(replica);
            debug_assert!(self.stored.replicas.get(replica).is_none(), "each step ends one");
        }
        budget
    }
}
