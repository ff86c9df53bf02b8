//! What the whole policy does with made-up accesses.

use super::*;
use crate::key::hash_key;

/// Stores keys in turn, in a shard with room for `room` of them that has none of them.
fn play(policy: &mut Adaptive, keys: impl Iterator<Item = u64>, room: usize) {
    for (stamp, key) in (1..).zip(keys) {
        let hash = hash_key(&key.to_le_bytes());
        let kind = ObjectKind::new(0, 1, false);
        let access = KeyAccess { hash, kind, hit: false, stamp, call: stamp };
        policy.accessed(access, room);
    }
    policy.check();
}

#[test]
fn the_sample_stays_small_as_objects_become_many() {
    let mut policy = Adaptive::new();
    for (stamp, objects) in (1_u64..).zip((0..4 * SAMPLE_KEYS).step_by(7)) {
        let hash = hash_key(&objects.to_le_bytes());
        let kind = ObjectKind::new(0, 1, false);
        policy.accessed(KeyAccess { hash, kind, hit: false, stamp, call: stamp }, objects);
    }
    policy.check();
    assert!(policy.thinning >= 4);
}

#[test]
fn a_shard_that_loses_most_of_its_objects_begins_a_new_sample() {
    let mut policy = Adaptive::new();
    play(&mut policy, 0..40_000, 8 * SAMPLE_KEYS);
    assert_eq!(policy.thinning, 5);
    play(&mut policy, 40_000..41_000, 4);
    assert_eq!(policy.thinning, 0);
}

#[test]
fn a_shard_that_hits_less_than_the_order_of_last_use_follows_that() {
    let mut policy = Adaptive::new();
    let (new, read) = (ObjectKind::new(0, 1, false), ObjectKind::READ);
    assert!(policy.worth(new, 60) < policy.worth(read, 100));
    // Each key comes twice in a row and the shard never has it.
    play(&mut policy, (0..1_000).map(|at| at / 2), 100);
    assert!(policy.worth(new, 60) > policy.worth(read, 100));
    assert!(policy.worth(new, 60) > policy.worth(new, 61));
}

#[test]
fn what_was_evicted_comes_back_as_read_once_more() {
    let mut policy = Adaptive::new();
    policy.evicted(7, ObjectKind::READ, 10);
    policy.evicted(1 << 40 | 9, ObjectKind::default(), 10);
    assert_eq!(policy.take_returned(7, 10), Some(ObjectKind::returned(1)));
    assert_eq!(policy.take_returned(7, 10), None);
    assert_eq!(policy.take_returned(1 << 40 | 9, 10), Some(ObjectKind::READ));
}
