//! Facts about wishes for more replicas.

use perigee_allocator::Extent;
use perigee_schemas::extent::extent_bytes;

use crate::counters::ShardCounters;
use crate::heat::Heat;
use crate::pending::PendingPuts;
use crate::read_view::tests::space;
use crate::rebuild::Rebuild;
use crate::relocation::Relocation;
use crate::settings::{HeatSettings, ShardSettings};
use crate::space::Space;
use crate::stored::StoredObjects;
use crate::stored::tests::{MEMORY, PAYLOAD_BYTES, add, stored};
use crate::tenant::TenantLane;
use crate::wishes::Wishes;

use super::Wishing;

/// Objects, and what is wished for them.
struct WishingStage {
    settings: ShardSettings,
    wishes: Wishes,
    heat: Option<Box<Heat>>,
    stored: StoredObjects,
    space: Space,
    counters: ShardCounters,
}

impl WishingStage {
    fn with(settings: ShardSettings) -> Self {
        Self {
            heat: settings.heat.map(|heat| Box::new(Heat::new(heat, 1))),
            settings,
            wishes: Wishes::default(),
            stored: stored(),
            space: space(),
            counters: ShardCounters::default(),
        }
    }

    fn step(&mut self, step: impl FnOnce(Wishing<'_>)) {
        let Self { settings, wishes, heat, stored, space, counters } = self;
        step(Wishing {
            settings,
            wishes,
            heat,
            rebuild: &mut Rebuild::default(),
            relocation: &Relocation::default(),
            pending: &PendingPuts::new(1),
            stored,
            space,
            counters,
        });
        self.wishes.check(|_| false);
    }

    /// One more replica of an object.
    fn join(&mut self, object: u32) -> u32 {
        let extent = Extent::new(1 << 16, extent_bytes(PAYLOAD_BYTES));
        let id = self.stored.replicas.make(TenantLane::shared(MEMORY), extent, PAYLOAD_BYTES);
        self.stored.replicas.assign(id, object);
        self.stored.replicas.put_behind(id, self.stored.keys[object].first);
        id
    }
}

#[test]
fn a_lost_replica_is_wished_for_as_long_as_others_stay() {
    for repairs in [true, false] {
        let mut parts = WishingStage::with(ShardSettings { repairs, ..ShardSettings::default() });
        let object = add(&mut parts.stored, "a", "");
        let only = parts.stored.keys[object].first;
        parts.step(|mut wishing| wishing.note_loss(only));
        assert_eq!(parts.wishes.len(), 0, "there is nothing to copy");
        let lost = parts.join(object);
        parts.step(|mut wishing| wishing.note_loss(lost));
        assert_eq!(parts.wishes.replicas(object), if repairs { 2 } else { 0 });
    }
}

#[test]
fn a_hot_key_without_room_elsewhere_gets_nothing() {
    let heat = HeatSettings { enforce: true, window_ms: 1_000, reads_needed: 2, replicas_max: 2 };
    let mut parts =
        WishingStage::with(ShardSettings { heat: Some(heat), ..ShardSettings::default() });
    let object = add(&mut parts.stored, "a", "");
    for _ in 0..2 {
        parts.step(|mut wishing| wishing.count_read(object));
    }
    assert_eq!((parts.counters.heat.no_room, parts.wishes.len()), (1, 0));
}
