//! The records of a shard against each other. Tests and models call it after each step; a running
//! master never does, because it looks at everything.
//! Invariant: live and quarantined extents are disjoint and are exactly what the allocators gave
//! out.

use std::collections::{BTreeMap, BTreeSet};

use perigee_allocator::{Extent, OffsetAllocator};

use crate::list_name::ListName;
use crate::object::Flags;
use crate::slab::NONE;

use super::KeyShard;

impl KeyShard {
    /// Panics if any two records disagree.
    pub fn check(&self) {
        self.objects.check();
        self.replicas.check();
        self.index.check(&self.objects);
        self.quarantine.check();
        self.pending.check();
        self.soft_pins.check();
        self.moves.check();
        self.tasks.check();
        self.ages.check();
        self.groups.check(&self.objects);
        self.check_segments();
        self.check_space();
        self.check_chains();
        self.check_moves();
        self.check_drains();
    }

    fn check_segments(&self) {
        self.shares.check();
        for (segment, _) in self.shares.iter() {
            self.check_lists(segment);
        }
    }

    fn check_lists(&self, segment: u32) {
        let Some(share) = self.shares.get(segment) else {
            return;
        };
        let here = self.replicas.iter().filter(|(_, it)| it.segment == segment);
        let (all, followers) = here.fold((0, 0), |(all, followers), (_, replica)| {
            (all + 1, followers + usize::from(replica.follows))
        });
        assert_eq!(share.recency.len(), all, "all replicas of {segment} count");
        let listed = share.recency.check(&self.replicas, segment);
        assert_eq!(listed + followers, all, "each is listed or follows");
    }

    /// Every byte of a readable segment that the shard holds is live, quarantined or free, and only
    /// one of them.
    fn check_space(&self) {
        let mut extents: BTreeMap<u32, Vec<Extent>> = BTreeMap::new();
        for (_, replica) in self.replicas.iter() {
            let taken = extents.entry(replica.segment).or_default();
            taken.push(replica.extent());
        }
        for quarantined in self.quarantine.iter() {
            let taken = extents.entry(quarantined.segment).or_default();
            taken.push(quarantined.extent);
        }
        let readable = self.shares.iter().filter(|(_, share)| share.is_readable());
        for (segment, share) in readable {
            let taken = extents.remove(&segment).unwrap_or_default();
            let taken_bytes: u64 = taken.iter().map(|extent| extent.bytes).sum();
            assert_eq!(share.allocator.used(), taken_bytes, "{segment}");
            let with_free = taken.into_iter().chain(share.allocator.free_extents());
            let held = OffsetAllocator::rebuild(share.spec.bytes, with_free);
            let held = held.map(|held| held.used());
            assert_eq!(held, Ok(share.allocator.capacity()), "{segment}");
            if self.settings.count == 1 {
                assert_eq!(share.allocator.capacity(), share.spec.bytes, "{segment}");
            }
        }
    }

    fn check_chains(&self) {
        let mut in_chains = 0;
        for (id, object) in self.objects.iter() {
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
            assert!(overtaken.all(|(put, _)| self.quarantine.has_put(put)));
            assert_eq!(object.readers == 0, object.read_end_ms == 0);
            let is_pinned = self.soft_pins.end_ms(id).is_some();
            assert_eq!(object.flags.has(Flags::SOFT_PIN), is_pinned);
            let pinned_bytes = !object.flags.has(Flags::SOFT_PINNED) || object.first != NONE;
            assert!(pinned_bytes, "object {id} is pinned and has no bytes");
            self.check_group(id);
        }
        let elsewhere = self.replicas.len() - in_chains;
        assert_eq!(elsewhere, self.moves.len(), "the others are targets of moves");
    }

    fn check_moves(&self) {
        for (object, under_way) in self.moves.iter() {
            let first = self.objects[object].first;
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

    fn check_drains(&self) {
        let generations = self.replicas.iter().map(|(_, it)| it.generation);
        let there: BTreeSet<u64> = generations.collect();
        for drain in self.drains.values() {
            drain.check(|generation| there.contains(&generation));
        }
    }

    fn check_group(&self, id: u32) {
        let object = &self.objects[id];
        let Some(group) = self.groups.get(object.group) else {
            assert_eq!(object.group, NONE);
            return;
        };
        let objects = self.objects.iter().map(|(_, other)| other);
        let members = objects.filter(|other| other.group == object.group);
        let count = |flag| members.clone().filter(|it| it.flags.has(flag)).count() as u32;
        assert_eq!(group.counts.blockers, count(Flags::BLOCKS_GROUP));
        assert_eq!(group.counts.soft_pinned, count(Flags::SOFT_PINNED));
        let reading = members.clone().filter(|it| it.read_end_ms > self.now_ms);
        let readers: u32 = reading.map(|it| u32::from(it.readers)).sum();
        assert!(group.seen.readers >= readers, "every reader keeps the group");
        for replica in self.replicas.chain(object.first) {
            let place = &group.places[&self.replicas[replica].segment];
            assert!(place.all(&self.replicas).any(|id| id == replica));
        }
        let mut replicas = 0;
        for (segment, place) in &group.places {
            let ids: Vec<u32> = place.all(&self.replicas).collect();
            let bytes = ids.iter().map(|id| self.replicas[*id].extent().bytes);
            assert_eq!(place.bytes(), bytes.sum::<u64>());
            assert!(ids.iter().all(|id| self.replicas[*id].segment == *segment));
            let followers = ids.iter().filter(|id| self.replicas[**id].follows);
            assert_eq!(followers.count(), ids.len() - 1, "one stands for all");
            replicas += ids.len();
        }
        let complete: usize = members.map(|it| self.replicas.chain(it.first).count()).sum();
        assert_eq!(replicas, complete, "the group's places have all replicas");
    }
}
