//! Eviction order against a plain model: weighted age, and memory of evicted keys.
//! Invariant checked: after every call exactly the keys that the model keeps are kept.

use std::collections::BTreeMap;

use proptest::prelude::{Strategy, prop, prop_assert_eq, prop_oneof, proptest};

use super::{LEASE_MS, Stage};
use crate::limits::COLD_AGE_FACTOR;

#[derive(Debug, Clone, Copy)]
enum Op {
    Put(usize),
    Get(usize),
    Exist(usize),
}

fn op() -> impl Strategy<Value = Op> {
    let key = 0_usize..14;
    prop_oneof![
        3 => key.clone().prop_map(Op::Put),
        1 => key.clone().prop_map(Op::Get),
        1 => key.prop_map(Op::Exist),
    ]
}

struct Entry {
    stamp: u64,
    hit: bool,
}

struct Order {
    room: usize,
    clock: u64,
    kept: BTreeMap<usize, Entry>,
    evictions: usize,
    evicted_at: BTreeMap<usize, usize>,
}

impl Order {
    fn new(room: usize) -> Self {
        let (kept, evicted_at) = (BTreeMap::new(), BTreeMap::new());
        Self { room, clock: 0, kept, evictions: 0, evicted_at }
    }

    fn apply(&mut self, op: Op) {
        match op {
            Op::Put(key) => self.put(key),
            Op::Get(key) => self.touch(key, true),
            Op::Exist(key) => self.touch(key, false),
        }
    }

    fn touch(&mut self, key: usize, read: bool) {
        if let Some(entry) = self.kept.get_mut(&key) {
            self.clock += 1;
            entry.stamp = self.clock;
            entry.hit |= read;
        }
    }

    fn put(&mut self, key: usize) {
        if self.kept.contains_key(&key) {
            return;
        }
        if self.kept.len() == self.room {
            self.evict();
        }
        self.clock += 1;
        let ghost = self.evicted_at.remove(&key);
        let hit = ghost.is_some_and(|evicted_at| self.evictions - evicted_at <= self.room);
        self.kept.insert(key, Entry { stamp: self.clock, hit });
    }

    fn evict(&mut self) {
        let weighted_age = |entry: &Entry| {
            let weight = if entry.hit { 1 } else { COLD_AGE_FACTOR };
            ((self.clock - entry.stamp) * weight, !entry.hit)
        };
        let victim = self.kept.iter().max_by_key(|(_, entry)| weighted_age(entry));
        let victim = victim.map(|(key, _)| *key).expect("the model is full");
        self.kept.remove(&victim);
        self.evictions += 1;
        self.evicted_at.insert(victim, self.evictions);
    }
}

proptest! {
    #[test]
    fn the_oldest_leaves_first_and_a_hit_counts_as_three_times_younger(
        room in 2_usize..8,
        ops in prop::collection::vec(op(), 1..200),
    ) {
        let mut stage = Stage::new(&[room as u64]);
        let mut order = Order::new(room);
        for op in ops {
            // Every lease has ended before the next call.
            stage.pass(LEASE_MS);
            match op {
                Op::Put(key) => stage.put(&key.to_string()),
                Op::Get(key) => stage.get(&key.to_string()),
                Op::Exist(key) => stage.exist(&key.to_string()),
            };
            order.apply(op);
            let kept: Vec<usize> = (0..14).filter(|key| stage.holds(&key.to_string())).collect();
            prop_assert_eq!(kept, order.kept.keys().copied().collect::<Vec<_>>(), "after {:?}", op);
        }
    }

    #[test]
    fn cold_objects_leave_in_order_of_their_puts(count in 4_usize..30, room in 2_u64..10) {
        let mut stage = Stage::new(&[room]);
        for key in 0..count {
            prop_assert_eq!(stage.put(&key.to_string()), 0);
        }
        let kept: Vec<usize> = (0..count).filter(|key| stage.holds(&key.to_string())).collect();
        let expected: Vec<usize> = (count.saturating_sub(room as usize)..count).collect();
        prop_assert_eq!(kept, expected);
    }
}
