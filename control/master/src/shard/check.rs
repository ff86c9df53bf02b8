//! The records of a shard against each other. Tests and models call it after each step; a running
//! master never does, because it looks at everything.
//! Invariant: each part agrees with itself, and what spans parts, such as chains, moves and groups,
//! with all of them.

use std::collections::BTreeSet;

use perigee_allocator::Extent;
use perigee_schemas::PartLayout;

use crate::list_name::ListName;
use crate::object::Flags;
use crate::slab::NONE;

use super::KeyShard;

impl KeyShard {
    /// Panics if any two records disagree.
    pub fn check(&self) {
        self.stored.check();
        let in_memory = self.stored.replicas.iter().filter(|(_, it)| !it.is_on_disk());
        self.space.check(in_memory.map(|(_, it)| (it.segment, it.extent())));
        if self.settings.count == 1 {
            self.space.check_whole();
        }
        self.pending.check();
        self.outbox.check();
        self.rebuild.check(|object| self.stored.keys.get(object).is_some());
        self.order.policy.check();
        self.relocation.check(&self.stored);
        self.tier.check(self.view());
        self.view().check();
        self.quotas.check(&self.stored);
        CrossCheck { shard: self }.run();
    }

    /// What this shard holds of a segment of memory, used and free, in no order: for checks over
    /// all shards of a master.
    pub fn held_extents(&self, segment: u32) -> Vec<Extent> {
        let Some(share) = self.space.get(segment).filter(|share| share.is_memory()) else {
            return Vec::new();
        };
        let replicas = self.stored.replicas.iter().filter(|(_, it)| it.segment == segment);
        let parked = self.space.quarantine().iter().filter(|it| it.segment == segment);
        let used = replicas.map(|(_, it)| it.extent()).chain(parked.map(|it| it.extent));
        used.chain(share.allocator.free_extents()).collect()
    }
}

/// The records of parts against each other.
struct CrossCheck<'a> {
    shard: &'a KeyShard,
}

impl CrossCheck<'_> {
    fn run(&self) {
        self.check_chains();
        self.check_parts();
        self.check_wishes();
    }

    fn check_chains(&self) {
        let mut in_chains = 0;
        for (id, object) in self.shard.stored.keys.iter() {
            let list = self.shard.stored.list_of(id);
            let mut segments = BTreeSet::new();
            for replica in self.shard.stored.replicas.chain(object.first) {
                in_chains += 1;
                let record = &self.shard.stored.replicas[replica];
                assert_eq!(record.object, id, "object of replica {replica}");
                assert!(segments.insert((record.segment, record.part())), "one per segment");
                if !record.follows() && !record.is_on_disk() && !record.is_extra() {
                    let is_held = record.list() == ListName::Held;
                    assert_eq!(is_held, list == ListName::Held, "list of object {id}");
                }
            }
            let firsts: Vec<u32> = self.shard.pending.of(id).map(|put| put.first).collect();
            assert_eq!(object.flags.has(Flags::PENDING), !firsts.is_empty());
            let has_something = object.first != NONE || !firsts.is_empty();
            assert!(has_something, "object {id} has something");
            for replica in
                firsts.into_iter().flat_map(|first| self.shard.stored.replicas.chain(first))
            {
                in_chains += 1;
                let record = &self.shard.stored.replicas[replica];
                assert_eq!((record.object, record.list()), (id, ListName::Held));
            }
            let (hard, soft) = self.shard.pending.overtaken_flags(id);
            assert_eq!(object.flags.has(Flags::OVERTAKEN_PIN), hard);
            assert_eq!(object.flags.has(Flags::OVERTAKEN_SOFT_PIN), soft);
            let mut overtaken = self.shard.pending.overtaken(id);
            assert!(overtaken.all(|(put, _)| self.shard.space.quarantine().has_put(put)));
            let pinned_bytes = !object.flags.has(Flags::SOFT_PINNED) || object.first != NONE;
            assert!(pinned_bytes, "object {id} is pinned and has no bytes");
        }
        let elsewhere = self.shard.stored.replicas.len() - in_chains;
        assert_eq!(
            elsewhere,
            self.shard.relocation.moves().len(),
            "the others are targets of moves"
        );
    }

    /// Objects in parts have each of them, unless their owners are still announcing; all others
    /// have whole replicas.
    fn check_parts(&self) {
        for (id, object) in self.shard.stored.keys.iter() {
            let layout = self.shard.stored.striped.get(id).map(|striped| striped.layout);
            assert_eq!(layout.is_some(), self.shard.stored.is_striped(id), "object {id}");
            self.check_cut(object.first, layout);
            if layout.is_some() && self.shard.rebuild.announced(id).is_none() {
                let parts: BTreeSet<Option<u8>> = self
                    .shard
                    .stored
                    .replicas
                    .chain(object.first)
                    .map(|it| self.shard.stored.replicas[it].part())
                    .collect();
                let wanted = layout.map(|layout| usize::from(layout.parts()));
                assert_eq!(Some(parts.len()), wanted, "each part of object {id} has a replica");
            }
            for put in self.shard.pending.of(id) {
                self.check_cut(put.first, put.layout);
            }
        }
        let striped = self.shard.stored.striped.objects();
        assert!(striped.into_iter().all(|object| self.shard.stored.keys.get(object).is_some()));
    }

    /// Each replica of a chain is as long as its part of the object.
    fn check_cut(&self, first: u32, layout: Option<PartLayout>) {
        for id in self.shard.stored.replicas.chain(first) {
            let replica = &self.shard.stored.replicas[id];
            assert_eq!(replica.part().is_some(), layout.is_some(), "replica {id}");
            if let (Some(layout), Some(part)) = (layout, replica.part()) {
                assert_eq!(replica.payload_bytes, layout.bytes_of(part), "replica {id}");
            }
        }
    }

    /// Only what has bytes is to have more of them; what was made for heat is counted.
    fn check_wishes(&self) {
        self.shard.heat.iter().for_each(|heat| heat.check());
        self.shard.wishes.check(|object| {
            assert_ne!(self.shard.stored.keys[object].first, NONE, "object {object} can be copied");
            self.shard.relocation.of(object).is_some_and(|it| it.purpose.is_of_wish())
        });
        let repairs =
            self.shard.relocation.moves().iter().filter(|(_, it)| it.purpose.is_of_wish());
        repairs.for_each(|(object, _)| assert!(self.shard.wishes.replicas(object) > 1, "{object}"));
    }
}
