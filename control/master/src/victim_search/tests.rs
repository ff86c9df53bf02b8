//! Facts about the search for victims.

use crate::counters::ShardCounters;
use crate::disk_tier::DiskTier;
use crate::eviction_order::EvictionOrder;
use crate::outbox::Outbox;
use crate::read_view::ReadView;
use crate::read_view::tests::space;
use crate::relocation::Relocation;
use crate::settings::{OffloadSettings, ShardSettings};
use crate::shard_quotas::ShardQuotas;
use crate::space::Space;
use crate::stored::StoredObjects;
use crate::stored::tests::{DISK, MEMORY, PAYLOAD_BYTES, add, stored};
use crate::tenant::SHARED;
use crate::victim::EvictionReason;

use super::VictimSearch;

const PUT: EvictionReason = EvictionReason::Put(SHARED);

/// All that decides about victims.
struct SearchStage {
    order: EvictionOrder,
    quotas: ShardQuotas,
    relocation: Relocation,
    tier: DiskTier,
    stored: StoredObjects,
    space: Space,
    outbox: Outbox,
    counters: ShardCounters,
}

impl SearchStage {
    fn with(force_evict: bool) -> Self {
        let offload = OffloadSettings {
            on_evict: true,
            force_evict,
            queue_limit: 9,
            cap_ratio: 1.0,
            drive_writes_per_day: 0.0,
        };
        let settings = ShardSettings { offload: Some(offload), ..ShardSettings::default() };
        let (stored, space) = (stored(), space());
        let mut tier = DiskTier::new(&settings);
        tier.mount(DISK, &space.get(DISK).unwrap().spec, stored.clock.now_ms());
        Self {
            order: EvictionOrder::new(&settings),
            quotas: ShardQuotas::new(&settings),
            relocation: Relocation::default(),
            tier,
            stored,
            space,
            outbox: Outbox::new(0),
            counters: ShardCounters::default(),
        }
    }

    fn search<R>(&mut self, search: impl FnOnce(VictimSearch<'_>) -> R) -> R {
        let Self { order, quotas, relocation, tier, stored, space, outbox, counters } = self;
        let found = search(VictimSearch {
            order,
            quotas,
            relocation,
            tier,
            stored,
            space,
            outbox,
            counters,
        });
        self.stored.check();
        self.tier.check(ReadView { stored: &self.stored, space: &self.space });
        found
    }
}

#[test]
fn a_copy_is_given_up_for_a_put_that_waits_for_no_disk() {
    for force_evict in [true, false] {
        let mut parts = SearchStage::with(force_evict);
        let object = add(&mut parts.stored, "a", "");
        let id = parts.stored.keys[object].first;
        let may_go =
            parts.search(|mut search| search.demoting().may_lose(id, EvictionReason::Watermark));
        assert!(!may_go, "it is on its way to a disk");
        assert_eq!(parts.search(|mut search| search.of_segment(MEMORY, PUT)), None);
        let victim = parts.search(|mut search| search.at_all_costs(MEMORY, PUT));
        assert_eq!(victim.map(|victim| victim.replica), force_evict.then_some(id));
        assert_eq!(parts.tier.demotions.len(), usize::from(!force_evict));
    }
}

#[test]
fn room_is_what_is_free_and_what_may_go() {
    let mut parts = SearchStage::with(true);
    let free_bytes = parts.search(|search| search.room_bytes(MEMORY, u64::MAX, SHARED));
    let object = add(&mut parts.stored, "a", "");
    let evictable_bytes = parts.stored.replicas[parts.stored.keys[object].first].extent().bytes;
    assert!(evictable_bytes >= PAYLOAD_BYTES);
    let room_bytes = parts.search(|search| search.room_bytes(MEMORY, u64::MAX, SHARED));
    assert_eq!(room_bytes, free_bytes + evictable_bytes);
}
