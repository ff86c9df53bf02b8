//! Facts about copies that begin.

use crate::counters::ShardCounters;
use crate::hit_sketch::HitSketch;
use crate::moving::Purpose;
use crate::read_view::tests::{OWNER, space};
use crate::relocation::Relocation;
use crate::settings::{PromotionSettings, ShardSettings};
use crate::shard_quotas::ShardQuotas;
use crate::space::Space;
use crate::stored::StoredObjects;
use crate::stored::tests::{DISK, MEMORY, add_on_disk, stored};

use super::Relocating;

/// An object on a disk, and what a copy of it changes.
struct RelocatingStage {
    settings: ShardSettings,
    quotas: ShardQuotas,
    relocation: Relocation,
    stored: StoredObjects,
    space: Space,
    hits: HitSketch,
    counters: ShardCounters,
}

impl RelocatingStage {
    fn with(queue_limit: usize, threshold: u8) -> Self {
        let promotion =
            PromotionSettings { threshold: Some(threshold), on_exist: false, queue_limit };
        let settings = ShardSettings { promotion: Some(promotion), ..ShardSettings::default() };
        Self {
            quotas: ShardQuotas::new(&settings),
            settings,
            relocation: Relocation::default(),
            stored: stored(),
            space: space(),
            hits: HitSketch::default(),
            counters: ShardCounters::default(),
        }
    }

    fn step<R>(&mut self, step: impl FnOnce(Relocating<'_>) -> R) -> R {
        let Self { settings, quotas, relocation, stored, space, hits, counters } = self;
        let result =
            step(Relocating { settings, quotas, relocation, stored, space, hits, counters });
        self.stored.check();
        self.relocation.check(&self.stored);
        result
    }

    fn read(&mut self, object: u32) {
        self.step(|mut relocating| relocating.promote_hit(object));
    }
}

#[test]
fn what_is_read_often_is_copied_to_memory_once() {
    let mut parts = RelocatingStage::with(9, 2);
    let object = add_on_disk(&mut parts.stored, "a");
    parts.read(object);
    assert_eq!(parts.relocation.moves().promotions(), 0, "read too seldom");
    assert_eq!(parts.counters.promotions_rejected.frequency, 1);
    (0..2).for_each(|_| parts.read(object));
    let under_way = parts.relocation.of(object).unwrap();
    assert_eq!((under_way.purpose, under_way.client), (Purpose::Promotion, OWNER));
    let task = parts.step(|mut relocating| relocating.take_one(object)).unwrap();
    assert_eq!((task.source.segment, task.target.segment), (DISK, MEMORY));
    assert_eq!(parts.counters.promotions.started, 1);
    assert!(parts.stored.copy_of(object).is_some(), "it stays on the disk");
}

#[test]
fn no_more_is_under_way_than_may_be() {
    let mut parts = RelocatingStage::with(1, 1);
    let objects = ["a", "b"].map(|key| add_on_disk(&mut parts.stored, key));
    objects.iter().for_each(|object| parts.read(*object));
    assert_eq!(parts.relocation.moves().promotions(), 1);
    assert_eq!(parts.counters.promotions_rejected.cap, 1);
}
