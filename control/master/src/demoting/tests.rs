//! Facts about demotions.

use crate::counters::ShardCounters;
use crate::disk_tier::DiskTier;
use crate::disk_wish::DiskWish;
use crate::list_name::ListName;
use crate::outbox::Outbox;
use crate::read_view::ReadView;
use crate::read_view::tests::{OWNER, space};
use crate::settings::{OffloadSettings, ShardSettings};
use crate::space::Space;
use crate::stored::StoredObjects;
use crate::stored::tests::{DISK, add, stored};
use crate::victim::EvictionReason;

use super::Demoting;

/// Objects, space with a disk, and the tier of that.
struct DemotingStage {
    stored: StoredObjects,
    space: Space,
    tier: DiskTier,
    outbox: Outbox,
    counters: ShardCounters,
}

impl DemotingStage {
    fn with(offload: Option<OffloadSettings>) -> Self {
        let (stored, space) = (stored(), space());
        let mut tier = DiskTier::new(&ShardSettings { offload, ..ShardSettings::default() });
        tier.mount(DISK, &space.get(DISK).unwrap().spec, stored.clock.now_ms());
        Self { stored, space, tier, outbox: Outbox::new(0), counters: ShardCounters::default() }
    }

    fn view(&self) -> ReadView<'_> {
        ReadView { stored: &self.stored, space: &self.space }
    }

    /// Does a step, after which all records agree.
    fn step<R>(&mut self, step: impl FnOnce(Demoting<'_>) -> R) -> R {
        let Self { tier, stored, space, outbox, counters } = self;
        let result = step(Demoting { tier, stored, space, outbox, counters });
        self.stored.check();
        self.tier.check(self.view());
        result
    }

    /// An object in memory, and its replica.
    fn add(&mut self, key: &str) -> (u32, u32) {
        let object = add(&mut self.stored, key, "");
        (object, self.stored.keys[object].first)
    }

    fn may_lose(&mut self, id: u32) -> bool {
        self.step(|mut demoting| demoting.may_lose(id, EvictionReason::Watermark))
    }
}

fn offload(drive_writes_per_day: f64) -> Option<OffloadSettings> {
    Some(OffloadSettings {
        on_evict: true,
        force_evict: false,
        queue_limit: 1,
        cap_ratio: 1.0,
        drive_writes_per_day,
    })
}

#[test]
fn what_is_to_have_a_copy_goes_when_it_has_one() {
    let mut parts = DemotingStage::with(offload(0.0));
    let (object, id) = parts.add("a");
    assert_eq!(parts.tier.wish(parts.view(), id), DiskWish::To(DISK));
    assert!(!parts.may_lose(id));
    assert_eq!(parts.stored.list_of(object), ListName::Held);
    assert_eq!(parts.counters.demotions.started, 1);
    let task = parts.tier.take(&parts.stored, OWNER).unwrap();
    assert_eq!((&*task.key, task.disk), (&b"a"[..], DISK));
    let ended = parts.step(|mut demoting| demoting.end(object)).unwrap();
    assert!(ended.is_taken && ended.is_victim);
    assert_eq!(parts.stored.replicas[id].list(), ListName::Ready, "it goes next");
}

#[test]
fn a_queue_that_is_full_takes_no_more() {
    let mut parts = DemotingStage::with(offload(0.0));
    let ids = ["a", "b"].map(|key| parts.add(key).1);
    assert!(ids.iter().all(|id| !parts.may_lose(*id)));
    assert_eq!((parts.counters.demotions.started, parts.tier.demotions.len()), (1, 1));
}

#[test]
fn without_disks_in_use_all_may_go() {
    let mut parts = DemotingStage::with(None);
    let (_, id) = parts.add("a");
    assert!(parts.may_lose(id));
    assert_eq!(parts.tier.wish(parts.view(), id), DiskWish::None);
}

#[test]
fn what_is_cancelled_is_void_if_it_may_be_written_and_else_gives_its_budget_back() {
    for is_taken in [false, true] {
        let mut parts = DemotingStage::with(offload(1.0));
        let disk = parts.space.disk_id(DISK);
        let left_bytes = |parts: &DemotingStage| {
            parts.tier.budgets.as_ref().and_then(|it| it.state(disk)).unwrap().left_bytes
        };
        let (object, id) = parts.add("a");
        let full_bytes = left_bytes(&parts);
        assert!(!parts.may_lose(id));
        assert!(left_bytes(&parts) < full_bytes);
        if is_taken {
            parts.tier.take(&parts.stored, OWNER).unwrap();
        }
        parts.step(|mut demoting| demoting.cancel(object));
        assert_eq!(left_bytes(&parts) == full_bytes, !is_taken);
        assert_eq!(parts.tier.tombstones.len(), usize::from(is_taken));
        assert_eq!(parts.counters.demotions.revoked, 1);
    }
}
