//! What a shard gives away of its keys: to owners that follow a segment, and to a publisher.
//! Invariant: an owner that follows a segment again first hears of all that lies there.

use perigee_schemas::record::RecordOp;

use crate::event_queue::KeyEventQueue;
use crate::limits::SNAPSHOT_STEP_REPLICAS;

use super::KeyShard;

impl KeyShard {
    /// From now on, changes of keys go into this queue.
    pub fn report_to(&mut self, queue: KeyEventQueue) {
        self.reports.open(queue);
    }

    /// From now on [`KeyShard::take_records`] tells what becomes of a segment; false if it is not
    /// mounted memory. What lies there already comes from [`KeyShard::snapshot`].
    pub fn follow(&mut self, segment: u32) -> bool {
        let is_memory = self.space.readable(segment).is_some_and(|share| share.is_memory());
        if is_memory {
            self.outbox.follow(segment);
        }
        is_memory
    }

    /// No owner follows a segment any more.
    pub fn unfollow(&mut self, segment: u32) {
        self.outbox.forget(segment);
    }

    /// Takes the records of a segment, as they follow each other in a journal; `None` for them if
    /// there were too many, so that who follows must begin again.
    pub fn take_records(&mut self) -> Option<(u32, Option<Vec<u8>>)> {
        self.outbox.take()
    }

    /// Notes complete replicas of a segment that is followed again, a bounded number of them;
    /// returns where to go on, or `None` when all were.
    pub fn snapshot(&mut self, segment: u32, from: u32) -> Option<u32> {
        if from == 0 {
            self.outbox.note_tombstones(&self.space, &self.tier.tombstones, segment);
        }
        let end = self.stored.replicas.bound().min(from.saturating_add(SNAPSHOT_STEP_REPLICAS));
        for id in from..end {
            let replica = self.stored.replicas.get(id).filter(|replica| replica.segment == segment);
            if replica.is_some_and(|replica| self.view().is_of_object(id, replica.object)) {
                self.owner_notes().note(id, RecordOp::Commit);
            }
        }
        (end < self.stored.replicas.bound()).then_some(end)
    }
}
