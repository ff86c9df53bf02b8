//! The last demotions of a client that leaves: all that its memory alone has, most worth first.
//! Invariant: nothing is chosen before the whole memory was looked at, and one call looks at a
//! bounded part of it. From the first call on nothing new is put there, and what was being put
//! there is awaited.

use crate::demoting::Demoting;
use crate::demotion_task::DemotionTask;
use crate::limits::LAST_PUTS_WAIT_MS;
use crate::share::SegmentShare;

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
        let was_open = self.close_memory_of(client);
        self.end_moves_from(client);
        // The end of a drain job opens it again.
        leaving.awaits_puts |= was_open && leaving.cursor > 0;
        leaving.awaits_puts |= self.is_being_put_into(client);
        let is_whole = self.tier.look_through(self.view(), &self.order, &mut leaving, client);
        let mut tasks = Vec::new();
        while tasks.len() < limit {
            let found = is_whole.then_some(&mut leaving);
            let Self { tier, stored, space, outbox, counters, .. } = self;
            let mut demoting = Demoting { tier, stored, space, outbox, counters };
            let Some(task) = demoting.next_last(client, found) else {
                break;
            };
            tasks.push(task);
        }
        let bound = self.stored.replicas.bound();
        if leaving.left(bound) == 0 && leaving.awaits_puts {
            leaving.look_again();
        }
        let left = leaving.left(bound);
        if left > 0 {
            self.tier.leaving.insert(client, leaving);
        }
        (tasks, left)
    }

    /// What is put into the memory of a client that leaves would go with it. False if it was closed
    /// already.
    fn close_memory_of(&mut self, client: u128) -> bool {
        let is_open = |share: &SegmentShare| {
            share.is_memory() && !share.is_closed() && share.spec.client == client
        };
        let open = self.space.iter().filter(|(_, share)| is_open(share));
        let open: Vec<u32> = open.map(|(segment, _)| segment).collect();
        open.iter().for_each(|segment| self.space.drain(*segment));
        !open.is_empty()
    }

    /// What a client that leaves was to copy to others goes to its disks instead: the time is too
    /// short for both, and a copy under way would keep it from them.
    fn end_moves_from(&mut self, client: u128) {
        let is_own = |id: u32| {
            !self.stored.replicas[id].is_on_disk() && self.view().carrier_of(id) == client
        };
        let moves = self.relocation.moves().iter();
        let own = moves.filter(|(_, under_way)| is_own(under_way.source));
        let own: Vec<u32> = own.map(|(object, _)| object).collect();
        own.into_iter().for_each(|object| self.cancel_move(object, true));
    }

    /// Whether a put that began not long ago has a replica in the memory of a client.
    fn is_being_put_into(&self, client: u128) -> bool {
        let since_ms = self.stored.clock.now_ms().saturating_sub(LAST_PUTS_WAIT_MS);
        let young = self.pending.iter().filter(|put| put.started_ms >= since_ms);
        let mut replicas = young.flat_map(|put| self.stored.replicas.chain(put.first));
        replicas.any(|id| self.view().carrier_of(id) == client)
    }
}
