//! Read leases that end before their time, because their readers have finished.
//! Invariant: a lease ends early only when every reader that it was granted to has given it back; a
//! group's, when every reader of every member has.

use crate::quarantine::ReadHold;
use crate::settings::ShardSettings;
use crate::slab::NONE;

use super::KeyShard;
use super::given_back::{self, GivenBack, life_of};

impl KeyShard {
    /// Name of the running lease on an object.
    pub(super) fn lease_name(&self, object: u32) -> u64 {
        let ShardSettings { index, seed, .. } = self.settings;
        given_back::lease_name(index, seed, self.keys[object].term, object)
    }

    /// Takes leases back, each from one reader that will not read under it any more. Bytes that
    /// were replaced or removed since then become free with the last lease. Unknown leases, and
    /// those of an earlier life of the master, are ignored.
    pub fn give_back(&mut self, now_ms: u64, leases: &[GivenBack]) {
        self.begin(now_ms);
        let (index, life) = (self.settings.index, life_of(self.settings.seed));
        let is_own = |lease: &&GivenBack| lease.shard() == Some(index) && lease.life() == life;
        for lease in leases.iter().filter(is_own) {
            if self.has_replica(lease.object(), lease.generation) {
                self.end_read(lease.object(), lease.term());
            } else {
                self.space.give_back(lease.generation, lease.term());
            }
        }
    }

    fn has_replica(&self, object: u32, generation: u64) -> bool {
        let Some(record) = self.keys.get(object) else {
            return false;
        };
        self.replicas.chain(record.first).any(|id| self.replicas[id].generation == generation)
    }

    /// One reader of an object less. After the last one it counts as touched, so that it goes no
    /// sooner than if its lease had run out.
    fn end_read(&mut self, object: u32, term: u8) {
        let now_ms = self.now_ms;
        let record = &mut self.keys[object];
        if !record.give_back(now_ms, term) {
            return;
        }
        if record.group != NONE {
            let group = record.group;
            self.end_reads_of_group(group, 1);
        } else if record.readers() == 0 {
            record.stamp = self.clock.touch();
            let list = self.list_of(object);
            self.relink(object, list);
        }
    }

    /// Some readers of a group's members less. After the last one the group counts as touched.
    fn end_reads_of_group(&mut self, group: u32, readers: u16) {
        let Some(part) = self.groups.get_mut(group) else {
            return;
        };
        part.update(|whole| whole.give_back(readers.into()));
        if part.seen.readers == 0 {
            self.clock.touch();
            self.relink_group(group);
        }
    }

    /// The running read lease on an object's replicas.
    pub(super) fn read_lease(&self, object: u32) -> ReadHold {
        let record = &self.keys[object];
        ReadHold { end_ms: record.read_end_ms, readers: record.readers(), term: record.term }
    }

    /// As `read_lease`, when all replicas are about to go: the lease goes with them and keeps the
    /// object's group no longer.
    pub(super) fn take_read_lease(&mut self, object: u32) -> ReadHold {
        let lease = self.read_lease(object);
        let record = &mut self.keys[object];
        record.set_readers(0);
        record.read_end_ms = 0;
        let group = record.group;
        if group != NONE && lease.readers > 0 && lease.end_ms > self.now_ms {
            self.end_reads_of_group(group, lease.readers);
        }
        lease
    }
}
