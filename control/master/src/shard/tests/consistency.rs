//! A check of all records of a shard against each other, for tests.
//! Invariant checked: live and parked extents are disjoint and are exactly what the allocators gave out.

use std::collections::BTreeMap;

use perigee_allocator::{Extent, OffsetAllocator};

use crate::object::Flags;
use crate::recency::ListName;
use crate::slab::NONE;

use super::super::Shard;

impl Shard {
    /// Fails the test if any two records disagree.
    pub(super) fn check(&self) {
        self.check_space();
        self.check_objects();
        self.check_counts();
    }

    fn check_space(&self) {
        let mut extents: BTreeMap<u32, Vec<Extent>> = BTreeMap::new();
        let mut replicas: BTreeMap<u32, usize> = BTreeMap::new();
        for replica in (0..self.replicas.bound()).filter_map(|id| self.replicas.get(id)) {
            extents
                .entry(replica.segment)
                .or_default()
                .push(replica.extent());
            *replicas.entry(replica.segment).or_default() += 1;
        }
        for parked in self.parking.iter() {
            extents
                .entry(parked.segment)
                .or_default()
                .push(parked.extent);
        }
        for segment in 0..self.shares.len() as u32 {
            let Some(share) = self.share(segment) else {
                continue;
            };
            let linked = replicas.get(&segment).copied().unwrap_or_default();
            assert_eq!(
                share.recency.len(),
                linked,
                "all replicas of {segment} are in its lists"
            );
            if !share.is_readable() {
                continue;
            }
            let taken = extents.remove(&segment).unwrap_or_default();
            let taken_bytes: u64 = taken.iter().map(|extent| extent.bytes).sum();
            assert_eq!(share.allocator.used(), taken_bytes, "{segment}");
            let expected = OffsetAllocator::rebuild(share.spec.bytes, taken.iter().copied())
                .expect("live and parked extents do not overlap");
            if self.settings.count == 1 {
                assert!(
                    expected.free_extents().eq(share.allocator.free_extents()),
                    "{segment}"
                );
            }
            let with_free = taken.into_iter().chain(share.allocator.free_extents());
            OffsetAllocator::rebuild(share.spec.bytes, with_free)
                .expect("what is free is not taken");
        }
    }

    fn check_objects(&self) {
        let mut in_chains = 0;
        for id in (0..self.objects.bound()).filter(|id| self.objects.get(*id).is_some()) {
            let object = &self.objects[id];
            assert_eq!(
                self.find(&object.key),
                Some(id),
                "the index finds every object"
            );
            let list = self.list_of(id);
            for replica in self.chain(object.first) {
                in_chains += 1;
                assert_eq!(self.replicas[replica].object, id);
                if !self.replicas[replica].follows {
                    let held = self.replicas[replica].list == ListName::Held;
                    assert_eq!(held, list == ListName::Held, "list of object {id}");
                }
            }
            let pending = self.pending.of(id);
            let firsts: Vec<u32> = pending.map(|pending| pending.first).collect();
            assert_eq!(object.flags.has(Flags::PENDING), !firsts.is_empty());
            assert!(
                object.first != NONE || !firsts.is_empty(),
                "an object has something"
            );
            for replica in firsts.into_iter().flat_map(|first| self.chain(first)) {
                in_chains += 1;
                assert_eq!(self.replicas[replica].object, id);
                assert_eq!(self.replicas[replica].list, ListName::Held);
            }
            let overtaken = self.pending.overtaken_pin(id);
            assert_eq!(object.flags.has(Flags::OVERTAKEN_PIN), overtaken.is_some());
            assert!(overtaken.is_none_or(|put| self.parking.has_put(put)));
            assert_eq!(object.readers == 0, object.read_end_ms == 0);
            let pinned = object.flags.has(Flags::SOFT_PIN);
            assert_eq!(pinned, self.soft_pins.end_ms(id).is_some());
            self.check_group(id);
        }
        assert_eq!(
            in_chains + self.moves.len(),
            self.replicas.len(),
            "every replica is in one chain or the target of a move"
        );
        self.check_moves();
    }

    fn check_moves(&self) {
        for (object, under_way) in self.moves.iter() {
            let first = self.objects[object].first;
            assert!(
                self.chain(first).any(|id| id == under_way.source),
                "the source of a move is complete"
            );
            let target = &self.replicas[under_way.target];
            assert_eq!(
                (target.object, target.list),
                (object, ListName::Held),
                "nobody but the move has its target"
            );
            assert_eq!(target.generation, under_way.generation);
        }
    }

    fn check_group(&self, id: u32) {
        let object = &self.objects[id];
        let Some(group) = self.groups.get(object.group) else {
            assert_eq!(object.group, NONE);
            return;
        };
        let objects = (0..self.objects.bound()).filter_map(|id| self.objects.get(id));
        let members = objects.filter(|other| other.group == object.group);
        let count = |flag| members.clone().filter(|it| it.flags.has(flag)).count() as u32;
        assert_eq!(group.counts.blockers, count(Flags::BLOCKS_GROUP));
        assert_eq!(group.counts.soft_pinned, count(Flags::SOFT_PIN));
        let reading = members.clone().filter(|it| it.read_end_ms > self.now_ms);
        let readers: u32 = reading.map(|it| u32::from(it.readers)).sum();
        assert!(
            group.seen.readers >= readers,
            "every reader keeps the group"
        );
        for replica in self.chain(object.first) {
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
        let complete: usize = members.map(|it| self.chain(it.first).count()).sum();
        assert_eq!(
            replicas, complete,
            "all complete replicas are in the group's places"
        );
    }

    fn check_counts(&self) {
        let gauges = self.gauges();
        let parked: u64 = self.parking.iter().map(|parked| parked.extent.bytes).sum();
        assert_eq!(gauges.parked_bytes, parked);
        for segment in &self.live {
            assert!(self.is_readable(*segment));
        }
    }
}
