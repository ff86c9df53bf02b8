//! What is stored: the objects of a shard's keys, their replicas and groups, and the order in which
//! they were touched.
//! Invariant: each complete replica is in the chain of its object and in the list that the state of
//! the object, or of its group, says.

mod copies;
mod cuts;
mod extras;
mod leases;
mod lists;
mod members;
mod packing;

#[cfg(test)]
pub(crate) mod tests;

use crate::generations::Generations;
use crate::group::{GroupLedger, Groups};
use crate::keys::Keys;
use crate::object::Flags;
use crate::packing::Packing;
use crate::replica::Replica;
use crate::replicas::Replicas;
use crate::settings::ShardSettings;
use crate::slab::NONE;
use crate::soft_pins::SoftPins;
use crate::striped::StripedObjects;
use crate::touch_clock::TouchClock;

#[derive(Debug)]
pub(crate) struct StoredObjects {
    pub(crate) keys: Keys,
    pub(crate) replicas: Replicas,
    /// How objects lie that are cut into parts.
    pub(crate) striped: StripedObjects,
    pub(crate) groups: Groups,
    pub(crate) soft_pins: SoftPins,
    pub(crate) clock: TouchClock,
    /// What is to become packed records.
    pub(crate) packing: Packing,
    /// Replicas that were made for heat.
    pub(crate) extras: u64,
    lease_ttl_ms: u64,
    /// The shard's number and the random number of this life of the master: parts of the names of
    /// leases.
    shard: usize,
    seed: u64,
}

impl StoredObjects {
    /// Nothing yet; groups may have members on the other shards with this ledger.
    pub(crate) fn new(settings: &ShardSettings, groups: &GroupLedger) -> Self {
        Self {
            keys: Keys::new(),
            replicas: Replicas::new(Generations::new(settings)),
            striped: StripedObjects::default(),
            groups: Groups::new(groups, settings.index),
            soft_pins: SoftPins::default(),
            clock: TouchClock::default(),
            packing: Packing::default(),
            extras: 0,
            lease_ttl_ms: settings.lease_ttl_ms,
            shard: settings.index,
            seed: settings.seed,
        }
    }

    /// Makes an object without replicas, in a group unless that has no name.
    pub(crate) fn insert(&mut self, key: &[u8], hash: u64, group: &str) -> u32 {
        let object = self.keys.insert(key, hash);
        if !group.is_empty() {
            self.keys[object].group = self.groups.join(group);
        }
        object
    }

    /// Forgets an object that has nothing any more.
    pub(crate) fn remove(&mut self, object: u32) {
        self.set_blocking(object, false);
        let group = self.keys[object].group;
        if group != NONE {
            self.groups.leave(group);
        }
        self.keys.remove(object);
    }

    /// Forgets a replica in memory that is in no chain any more.
    pub(crate) fn remove_replica(&mut self, id: u32) {
        self.extras -= u64::from(self.replicas[id].is_extra());
        self.unlist(id);
        self.replicas.remove(id);
    }

    /// Panics if any two records disagree.
    pub(crate) fn check(&self) {
        self.keys.check();
        self.replicas.check();
        self.clock.check();
        self.soft_pins.check();
        self.groups.check(&self.keys);
        self.packing.check();
        self.check_extras();
        for (object, record) in self.keys.iter() {
            let is_pinned = self.soft_pins.end_ms(object).is_some();
            assert_eq!(record.flags.has(Flags::SOFT_PIN), is_pinned);
            assert_eq!(record.readers() == 0, record.read_end_ms == 0);
            assert!(!self.is_to_be_packed(object) || self.packing.has(object), "{object} waits");
            self.check_group(object);
        }
    }

    /// What was made for heat is counted, and is never alone in memory.
    fn check_extras(&self) {
        let extras = self.replicas.iter().filter(|(_, replica)| replica.is_extra());
        assert_eq!(extras.count() as u64, self.extras);
        for (object, record) in self.keys.iter() {
            let has = |is_one: fn(&Replica) -> bool| {
                let mut complete = self.replicas.chain(record.first);
                complete.any(|id| is_one(&self.replicas[id]))
            };
            let is_alone = has(Replica::is_extra) && !has(|it| !it.is_extra() && !it.is_on_disk());
            assert!(!is_alone, "object {object} has a replica beside the one made for heat");
        }
    }

    fn check_group(&self, id: u32) {
        let object = &self.keys[id];
        let Some(group) = self.groups.get(object.group) else {
            assert_eq!(object.group, NONE);
            return;
        };
        let objects = self.keys.iter().map(|(_, other)| other);
        let members = objects.filter(|other| other.group == object.group);
        let count = |flag| members.clone().filter(|it| it.flags.has(flag)).count() as u32;
        assert_eq!(group.counts.blockers, count(Flags::BLOCKS_GROUP));
        assert_eq!(group.counts.soft_pinned, count(Flags::SOFT_PINNED));
        let reading = members.clone().filter(|it| it.read_end_ms > self.clock.now_ms());
        let readers: u32 = reading.map(|it| u32::from(it.readers())).sum();
        assert!(group.seen.readers >= readers, "every reader keeps the group");
        group.check_places(&self.replicas);
        let replicas = group.replicas(&self.replicas);
        let is_listed =
            |id: &u32| !self.replicas[*id].is_on_disk() && !self.replicas[*id].is_extra();
        let in_memory = |first: u32| self.replicas.chain(first).filter(is_listed);
        assert!(in_memory(object.first).all(|id| replicas.contains(&id)));
        let complete: usize = members.map(|it| in_memory(it.first).count()).sum();
        assert_eq!(replicas.len(), complete, "the group's places have all replicas");
    }
}
