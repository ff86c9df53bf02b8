//! The records of a shard against each other. Tests and models call it after each step; a running
//! master never does, because it looks at everything.
//! Invariant: each part agrees with itself, and what spans parts, such as chains, moves and groups,
//! with all of them.

use std::collections::BTreeSet;

use crate::list_name::ListName;
use crate::object::Flags;
use crate::slab::NONE;

use super::KeyShard;

impl KeyShard {
    /// Panics if any two records disagree.
    pub fn check(&self) {
        self.keys.check();
        self.replicas.check();
        self.space.check(self.replicas.iter().map(|(_, it)| (it.segment, it.extent())));
        self.clock.check();
        self.pending.check();
        self.soft_pins.check();
        self.policy.check();
        self.groups.check(&self.keys);
        self.check_whole_segments();
        self.check_chains();
        self.check_moves();
        self.check_relocation();
    }

    /// A master's only shard holds all of each segment.
    fn check_whole_segments(&self) {
        if self.settings.count == 1 {
            for (segment, share) in self.space.iter().filter(|(_, share)| share.is_readable()) {
                assert_eq!(share.allocator.capacity(), share.spec.bytes, "{segment}");
            }
        }
    }

    fn check_chains(&self) {
        let mut in_chains = 0;
        for (id, object) in self.keys.iter() {
            let list = self.list_of(id);
            let mut segments = BTreeSet::new();
            for replica in self.replicas.chain(object.first) {
                in_chains += 1;
                let record = &self.replicas[replica];
                assert_eq!(record.object, id, "object of replica {replica}");
                assert!(segments.insert(record.segment), "one per segment");
                if !record.follows {
                    let is_held = record.list == ListName::Held;
                    assert_eq!(is_held, list == ListName::Held, "list of object {id}");
                }
            }
            let firsts: Vec<u32> = self.pending.of(id).map(|put| put.first).collect();
            assert_eq!(object.flags.has(Flags::PENDING), !firsts.is_empty());
            let has_something = object.first != NONE || !firsts.is_empty();
            assert!(has_something, "object {id} has something");
            for replica in firsts.into_iter().flat_map(|first| self.replicas.chain(first)) {
                in_chains += 1;
                let record = &self.replicas[replica];
                assert_eq!((record.object, record.list), (id, ListName::Held));
            }
            let (hard, soft) = self.overtaken_flags(id);
            assert_eq!(object.flags.has(Flags::OVERTAKEN_PIN), hard);
            assert_eq!(object.flags.has(Flags::OVERTAKEN_SOFT_PIN), soft);
            let mut overtaken = self.pending.overtaken(id);
            assert!(overtaken.all(|(put, _)| self.space.quarantine().has_put(put)));
            assert_eq!(object.readers == 0, object.read_end_ms == 0);
            let is_pinned = self.soft_pins.end_ms(id).is_some();
            assert_eq!(object.flags.has(Flags::SOFT_PIN), is_pinned);
            let pinned_bytes = !object.flags.has(Flags::SOFT_PINNED) || object.first != NONE;
            assert!(pinned_bytes, "object {id} is pinned and has no bytes");
            self.check_group(id);
        }
        let elsewhere = self.replicas.len() - in_chains;
        assert_eq!(elsewhere, self.relocation.moves().len(), "the others are targets of moves");
    }

    fn check_moves(&self) {
        for (object, under_way) in self.relocation.moves().iter() {
            let first = self.keys[object].first;
            let mut complete = self.replicas.chain(first);
            let has_source = complete.any(|id| id == under_way.source);
            assert!(has_source, "the source of a move is complete");
            let target = &self.replicas[under_way.target];
            assert_eq!((target.object, target.list), (object, ListName::Held));
            assert_eq!(target.generation, under_way.generation);
            let source = &self.replicas[under_way.source];
            assert_ne!(source.segment, target.segment, "a move goes elsewhere");
            assert_eq!(source.payload_bytes, target.payload_bytes);
        }
    }

    fn check_relocation(&self) {
        let generations = self.replicas.iter().map(|(_, it)| it.generation);
        let there: BTreeSet<u64> = generations.collect();
        self.relocation.check(|generation| there.contains(&generation));
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
        let reading = members.clone().filter(|it| it.read_end_ms > self.now_ms);
        let readers: u32 = reading.map(|it| u32::from(it.readers)).sum();
        assert!(group.seen.readers >= readers, "every reader keeps the group");
        group.check_places(&self.replicas);
        let replicas = group.replicas(&self.replicas);
        assert!(self.replicas.chain(object.first).all(|id| replicas.contains(&id)));
        let complete: usize = members.map(|it| self.replicas.chain(it.first).count()).sum();
        assert_eq!(replicas.len(), complete, "the group's places have all replicas");
    }
}
