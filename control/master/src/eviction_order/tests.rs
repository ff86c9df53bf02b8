//! Facts about the order of eviction.

use crate::object::Flags;
use crate::settings::ShardSettings;
use crate::stored::StoredObjects;
use crate::stored::tests::{LEASE_MS, MEMORY, add, stored};
use crate::tenant::{SHARED, TenantLane};
use crate::touch::Touch;
use crate::victim::EvictionReason;

use super::EvictionOrder;

const PUT: EvictionReason = EvictionReason::Put(SHARED);

/// The object that goes next.
fn next(
    order: &mut EvictionOrder,
    stored: &mut StoredObjects,
    need: EvictionReason,
) -> Option<u32> {
    let victim = order.next(stored, TenantLane::shared(MEMORY), need)?;
    stored.check();
    Some(stored.replicas[victim.replica].object)
}

fn begin(stored: &mut StoredObjects, ms: u64) {
    let now_ms = stored.clock.now_ms() + ms;
    stored.clock.begin_call(now_ms);
}

#[test]
fn the_one_touched_longest_ago_goes_and_a_reader_keeps_its_own() {
    let (mut order, mut stored) = (EvictionOrder::new(&ShardSettings::default()), stored());
    let objects = ["a", "b"].map(|key| add(&mut stored, key, ""));
    assert_eq!(next(&mut order, &mut stored, PUT), Some(objects[0]));
    begin(&mut stored, 1);
    stored.touch(objects[0], Touch::Read);
    assert_eq!(next(&mut order, &mut stored, PUT), Some(objects[1]));
    begin(&mut stored, 1);
    stored.touch(objects[1], Touch::Read);
    assert_eq!(next(&mut order, &mut stored, PUT), None, "both are read");
    begin(&mut stored, 2 * LEASE_MS);
    assert!(next(&mut order, &mut stored, PUT).is_some(), "their leases have ended");
}

#[test]
fn a_pin_lets_an_object_go_last_or_never() {
    for evict_soft_pinned in [true, false] {
        let settings = ShardSettings { evict_soft_pinned, ..ShardSettings::default() };
        let (mut order, mut stored) = (EvictionOrder::new(&settings), stored());
        let pinned = add(&mut stored, "a", "");
        assert!(stored.set_soft_pin(pinned, Some(u64::MAX)));
        let list = stored.list_of(pinned);
        stored.relink(pinned, list);
        let plain = add(&mut stored, "b", "");
        assert_eq!(next(&mut order, &mut stored, PUT), Some(plain));
        stored.keys[plain].flags.set(Flags::HARD_PIN, true);
        stored.refresh_blocking(plain);
        let list = stored.list_of(plain);
        stored.relink(plain, list);
        begin(&mut stored, 1);
        let last = next(&mut order, &mut stored, PUT);
        assert_eq!(last, evict_soft_pinned.then_some(pinned));
    }
}

#[test]
fn the_watermark_takes_nothing_fresh() {
    let (mut order, mut stored) = (EvictionOrder::new(&ShardSettings::default()), stored());
    let object = add(&mut stored, "a", "");
    assert_eq!(next(&mut order, &mut stored, EvictionReason::Watermark), None);
    assert_eq!(next(&mut order, &mut stored, PUT), Some(object));
}
