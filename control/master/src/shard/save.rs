//! The last demotions of a client that leaves: all that its memory alone has, most worth first.
//! Invariant: nothing is chosen before the whole memory was looked at, and one call looks at a
//! bounded part of it.

use crate::demoting::Demoting;
use crate::demotion_task::DemotionTask;

use super::KeyShard;

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
        self.tier.leaving.retain(|client, _| space.has_disk(*client));
        let mut leaving = self.tier.leaving.remove(&client).unwrap_or_default();
        let is_whole = self.tier.look_through(self.view(), &self.order, &mut leaving, client);
        let mut tasks = Vec::new();
        while tasks.len() < limit {
            let found = is_whole.then_some(&mut leaving);
            let Self { tier, stored, space, outbox, counters, relocation, .. } = self;
            let mut demoting = Demoting { tier, stored, space, outbox, counters };
            let Some(task) = demoting.next_last(relocation, client, found) else {
                break;
            };
            tasks.push(task);
        }
        let left = leaving.left(self.stored.replicas.bound());
        if left > 0 {
            self.tier.leaving.insert(client, leaving);
        }
        (tasks, left)
    }
}
