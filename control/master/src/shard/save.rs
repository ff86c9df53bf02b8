//! The last demotions of a client that leaves: all that its memory alone has, most worth first.
//! Invariant: nothing is chosen before the whole memory was looked at, and one call looks at a
//! bounded part of it.

use crate::demotion_task::DemotionTask;
use crate::leaving::{LastDemotion, LeavingClient};
use crate::limits::LAST_LOOK_REPLICAS;
use crate::list_name::{Class, ListName};
use crate::object::Flags;

use super::KeyShard;
use super::admission::DiskWish;

impl KeyShard {
    /// Gives a client that leaves up to `limit` objects in its memory to write to its disks, most
    /// worth first, and how many may be to come. With none to come all was given.
    pub fn take_last_demotions(
        &mut self,
        now_ms: u64,
        client: u128,
        limit: usize,
    ) -> (Vec<DemotionTask>, u64) {
        self.begin(now_ms);
        if self.settings.offload.is_none() {
            return (Vec::new(), 0);
        }
        // Those that have gone do not ask again.
        let space = &self.space;
        self.leaving.retain(|client, _| space.has_disk(*client));
        let mut leaving = self.leaving.remove(&client).unwrap_or_default();
        let is_whole = self.look_through(&mut leaving, client);
        let mut tasks = Vec::new();
        while tasks.len() < limit
            && let Some(task) = self.next_task(client, is_whole.then_some(&mut leaving))
        {
            tasks.push(task);
        }
        let left = leaving.left(self.stored.replicas.bound());
        if left > 0 {
            self.leaving.insert(client, leaving);
        }
        (tasks, left)
    }

    /// What waits already, or else the next of what was found.
    fn next_task(
        &mut self,
        client: u128,
        found: Option<&mut LeavingClient>,
    ) -> Option<DemotionTask> {
        if let Some(task) = self.take_demotion(client) {
            return Some(task);
        }
        let found = found?;
        while let Some(next) = found.pop() {
            if let Some(disk) = self.last_disk(&next) {
                self.begin_demotion(next.replica, disk, false);
                return self.take_demotion(client);
            }
        }
        None
    }

    /// The disk that a replica goes to, if it is still there, has no copy, and one takes it.
    fn last_disk(&self, next: &LastDemotion) -> Option<u32> {
        let replica = self.stored.replicas.get(next.replica)?;
        let is_same = replica.generation == next.generation && !replica.is_on_disk();
        let object = replica.object;
        let is_free = is_same
            && !self.stored.keys.get(object)?.flags.has(Flags::DEMOTING)
            && self.relocation.of(object).is_none()
            && self
                .stored
                .replicas
                .chain(self.stored.keys[object].first)
                .any(|id| id == next.replica);
        match is_free.then(|| self.disk_wish(next.replica))? {
            DiskWish::To(disk) => Some(disk),
            DiskWish::None | DiskWish::Soon | DiskWish::Refused(_) => None,
        }
    }

    /// Goes on looking through a client's memory; whether all of it was looked at.
    fn look_through(&mut self, leaving: &mut LeavingClient, client: u128) -> bool {
        let bound = self.stored.replicas.bound();
        let end = bound.min(leaving.cursor.saturating_add(LAST_LOOK_REPLICAS));
        for id in leaving.cursor..end {
            if let Some(last_demotion) = self.last_demotion(id, client) {
                leaving.push(last_demotion);
            }
        }
        leaving.cursor = end.max(leaving.cursor);
        leaving.cursor >= bound
    }

    fn last_demotion(&self, id: u32, client: u128) -> Option<LastDemotion> {
        let replica = self.stored.replicas.get(id)?;
        let (object, generation) = (replica.object, replica.generation);
        if replica.is_on_disk()
            || self.view().carrier_of(id) != client
            || !self.view().is_readable(id)
        {
            return None;
        }
        let record = self.stored.keys.get(object).filter(|_| self.is_disk_wanted(id))?;
        let age = self.stored.clock.since(self.stored.groups.touched(record).stamp);
        let is_pinned = record.flags.has(Flags::PINNED);
        let (rank, worth) = match self.stored.list_of(object) {
            _ if is_pinned => (2, u64::MAX - age),
            ListName::Evictable(Class::Pinned, _) => (1, u64::MAX - age),
            ListName::Evictable(Class::Plain(kind), _) => (0, self.order.policy.worth(kind, age)),
            _ => (0, self.order.policy.worth(record.kind(), age)),
        };
        Some(LastDemotion { rank, worth, replica: id, generation })
    }
}
