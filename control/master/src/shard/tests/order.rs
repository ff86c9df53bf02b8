//! Eviction order against a plain model that asks the same policy.
//! Invariant checked: after every call exactly the keys that the model keeps are kept.

use std::collections::BTreeMap;

use proptest::prelude::{Strategy, prop, prop_assert_eq, prop_oneof, proptest};

use super::{LEASE_MS, Stage, settings};
use crate::key::hash_key;
use crate::policy::{EvictionPolicy, KeyAccess, ObjectKind, PolicyName};
use crate::settings::ShardSettings;

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
    kind: ObjectKind,
    /// The last call that granted a lease: 0 none, 1 a probe, 2 a read.
    lease: u8,
}

struct Order {
    room: usize,
    clock: u64,
    kept: BTreeMap<usize, Entry>,
    policy: Box<dyn EvictionPolicy>,
}

impl Order {
    fn new(room: usize, policy: PolicyName) -> Self {
        Self { room, clock: 0, kept: BTreeMap::new(), policy: policy.build() }
    }

    fn apply(&mut self, op: Op, call: u64) {
        match op {
            Op::Put(key) => self.put(key, call),
            Op::Get(key) => self.get(key, call),
            Op::Exist(key) => self.touch(key, 1),
        }
    }

    fn get(&mut self, key: usize, call: u64) {
        if let Some(entry) = self.kept.get_mut(&key) {
            entry.kind = entry.kind.read();
            self.access(key, true, call);
            self.touch(key, 2);
        }
    }

    fn touch(&mut self, key: usize, lease: u8) {
        if let Some(entry) = self.kept.get_mut(&key) {
            self.clock += 1;
            (entry.stamp, entry.lease) = (self.clock, lease);
        }
    }

    fn access(&mut self, key: usize, hit: bool, call: u64) {
        let (hash, kind, stamp) = (hash_of(key), self.kept[&key].kind, self.clock);
        self.policy.accessed(KeyAccess { hash, kind, hit, stamp, call }, self.kept.len());
    }

    fn put(&mut self, key: usize, call: u64) {
        if self.kept.contains_key(&key) {
            return self.access(key, true, call);
        }
        if self.kept.len() == self.room {
            self.evict();
        }
        self.clock += 1;
        let returned = self.policy.take_returned(hash_of(key), self.kept.len() + 1);
        let kind = returned.unwrap_or(ObjectKind::new(0, 1, false));
        self.kept.insert(key, Entry { stamp: self.clock, kind, lease: 0 });
        self.access(key, false, call);
    }

    /// Of the oldest of each kind and lease the one goes that is worth least.
    fn evict(&mut self) {
        let mut oldest: BTreeMap<(ObjectKind, u8), (u64, usize)> = BTreeMap::new();
        for (key, entry) in &self.kept {
            let found = oldest.entry((entry.kind, entry.lease)).or_insert((entry.stamp, *key));
            *found = (*found).min((entry.stamp, *key));
        }
        let worth = |((kind, _), (stamp, _)): &(&(ObjectKind, u8), &(u64, usize))| {
            (self.policy.worth(*kind, self.clock - stamp), *kind)
        };
        let ((kind, _), (_, key)) = oldest.iter().min_by_key(worth).expect("the model is full");
        self.policy.evicted(hash_of(*key), *kind, self.kept.len());
        self.kept.remove(key);
    }
}

fn hash_of(key: usize) -> u64 {
    hash_key(key.to_string().as_bytes())
}

proptest! {
    #[test]
    fn of_the_oldest_of_each_kind_the_one_goes_that_is_worth_least(
        room in 2_usize..8,
        ops in prop::collection::vec(op(), 1..800),
        is_lru in prop::bool::ANY,
    ) {
        let policy = if is_lru { PolicyName::Lru } else { PolicyName::Adaptive };
        let settings = ShardSettings { policy, ..settings() };
        let mut stage = Stage::with(settings, &[room as u64]);
        let mut order = Order::new(room, policy);
        for (call, op) in (0..).zip(ops) {
            // Every lease has ended before the next call.
            stage.pass(LEASE_MS);
            match op {
                Op::Put(key) => stage.put(&key.to_string()),
                Op::Get(key) => stage.get(&key.to_string()),
                Op::Exist(key) => stage.exist(&key.to_string()),
            };
            order.apply(op, call);
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
