//! What is in the way of the next victim: leases of readers, and groups that other shards keep.
//! Invariant: each step moves a bounded number of replicas.

use crate::limits::{GROUP_STEPS_MAX, VICTIM_STEPS_MAX};
use crate::list_name::{Class, LeasePhase, ListName, PLAIN_READ};
use crate::slab::NONE;
use crate::stored::StoredObjects;
use crate::tenant::TenantLane;
use crate::victim::EvictionReason;

/// Moves groups out of the way that other shards have touched, pinned or begun to write since
/// they were linked here.
pub(super) fn sort_out_groups(stored: &mut StoredObjects, lane: TenantLane) {
    for list in ListName::evictable() {
        for _ in 0..GROUP_STEPS_MAX {
            let replica = stored.replicas.get(stored.replicas.oldest(lane, list));
            let object = replica.and_then(|it| stored.keys.get(it.object));
            let group = object.map_or(NONE, |it| it.group);
            let part = stored.groups.get(group);
            if !part.is_some_and(|it| it.is_outdated() || it.is_held_elsewhere()) {
                break;
            }
            stored.look_again(group);
        }
    }
}

/// Moves replicas whose read lease has ended but whose probe lease runs out of the way of those
/// behind them.
pub(super) fn sort_out_readers(stored: &mut StoredObjects, lane: TenantLane, class: Class) {
    let now_ms = stored.clock.now_ms();
    for _ in 0..VICTIM_STEPS_MAX {
        let id = stored.replicas.oldest(lane, ListName::Evictable(class, LeasePhase::Read));
        if id == NONE {
            return;
        }
        let object = &stored.keys[stored.replicas[id].object];
        let touched = stored.groups.touched(object);
        if touched.read_end_ms > now_ms || touched.probe_end_ms <= now_ms {
            return;
        }
        let probed = ListName::Evictable(class, LeasePhase::Probed);
        stored.replicas.relink(id, probed);
    }
}

/// Classes with replicas whose last lease was a reader's.
pub(super) fn read_classes(
    stored: &StoredObjects,
    lane: TenantLane,
) -> impl Iterator<Item = Class> + use<> {
    let lists = stored.replicas.lists(lane).map(|lists| lists.filled(PLAIN_READ));
    lists.into_iter().flatten().filter_map(|list| match list {
        ListName::Evictable(class, _) => Some(class),
        _ => None,
    })
}

/// Stamp that a victim's must be below.
pub(super) fn due_stamp(stored: &StoredObjects, lane: TenantLane, need: EvictionReason) -> u64 {
    match need {
        EvictionReason::Put(_) | EvictionReason::LookAhead => u64::MAX,
        EvictionReason::Watermark => {
            let settled = stored.clock.settled();
            oldest_read(stored, lane).map_or(settled, |held| settled.min(held))
        }
    }
}

/// Stamp of the oldest object that a reader holds, as far as the ends of the lists tell.
fn oldest_read(stored: &StoredObjects, lane: TenantLane) -> Option<u64> {
    let lists = stored.replicas.lists(lane)?;
    let held = lists.filled(PLAIN_READ).filter_map(|list| {
        let replica = lists.oldest(list);
        let object = stored.keys.get(stored.replicas.get(replica)?.object)?;
        let touched = stored.groups.touched(object);
        (touched.read_end_ms > stored.clock.now_ms()).then_some(touched.stamp)
    });
    held.min()
}

/// Whether a replica was touched a moment ago.
pub(super) fn is_fresh(stored: &StoredObjects, replica: u32) -> bool {
    let object = &stored.keys[stored.replicas[replica].object];
    stored.groups.touched(object).stamp >= stored.clock.settled()
}
