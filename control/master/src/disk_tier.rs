//! The tier of disks: copies on their way there, those that are void, and what may be written.
//! Invariant: an object has at most one demotion under way, from a complete replica in its owner's
//! memory to a mounted disk of that owner.

mod demote;
mod last;
mod revoke;
mod wish;

use std::collections::BTreeMap;

use crate::demotion::{Demotion, Demotions};
use crate::leaving::LeavingClient;
use crate::object::Flags;
use crate::read_view::ReadView;
use crate::segment::SegmentSpec;
use crate::settings::{OffloadSettings, ShardSettings};
use crate::share::SegmentShare;
use crate::slab::NONE;
use crate::space::Space;
use crate::tombstone::Tombstones;
use crate::write_budgets::WriteBudgets;

#[derive(Debug)]
pub(crate) struct DiskTier {
    pub(crate) demotions: Demotions,
    pub(crate) tombstones: Tombstones,
    /// What may be written to disks; as much as comes if `None`.
    pub(crate) budgets: Option<WriteBudgets>,
    /// Clients that leave, and what is still to be written for them.
    pub(crate) leaving: BTreeMap<u128, LeavingClient>,
    pub(crate) offload: Option<OffloadSettings>,
    /// Number of shards of the master.
    pub(crate) shards: usize,
    watermark_ratio: f64,
}

impl DiskTier {
    pub(crate) fn new(settings: &ShardSettings) -> Self {
        let (index, shards) = (settings.index, settings.count);
        let per_day = settings.offload.map(|offload| offload.drive_writes_per_day);
        Self {
            demotions: Demotions::default(),
            tombstones: Tombstones::new(index, shards, settings.offload.is_some()),
            budgets: per_day.and_then(|per_day| WriteBudgets::new(per_day, shards)),
            leaving: BTreeMap::new(),
            offload: settings.offload,
            shards,
            watermark_ratio: settings.watermark_ratio,
        }
    }

    /// A disk was mounted.
    pub(crate) fn mount(&mut self, disk: u32, spec: &SegmentSpec, now_ms: u64) {
        self.tombstones.open(disk);
        if let Some(budgets) = &mut self.budgets {
            budgets.mount(spec.id, spec.bytes, now_ms);
        }
    }

    /// Objects whose demotions to a disk are over if all are, or all that its owner is not writing
    /// yet.
    pub(crate) fn on_their_way(&self, disk: u32, with_taken: bool) -> Vec<u32> {
        let is_over = |it: &Demotion| it.disk == disk && (with_taken || !it.is_taken);
        let to_it = self.demotions.iter().filter(|(_, demotion)| is_over(demotion));
        to_it.map(|(object, _)| object).collect()
    }

    /// Panics if any two records disagree.
    pub(crate) fn check(&self, view: ReadView<'_>) {
        self.tombstones.check();
        self.check_copies(view);
        self.check_demotions(view);
        self.check_budgets(view.space);
    }

    /// A demotion has a complete replica in its owner's memory as its source, and a mounted disk.
    fn check_demotions(&self, view: ReadView<'_>) {
        self.demotions.check();
        let flagged = view.stored.keys.iter().filter(|(_, it)| it.flags.has(Flags::DEMOTING));
        assert_eq!(flagged.count(), self.demotions.len());
        for (object, demotion) in self.demotions.iter() {
            assert!(view.stored.keys[object].flags.has(Flags::DEMOTING), "{object}");
            let mut complete = view.stored.replicas.chain(view.stored.keys[object].first);
            assert!(complete.any(|id| id == demotion.source), "its source is complete");
            let source = &view.stored.replicas[demotion.source];
            assert!(!source.is_on_disk() && source.generation == demotion.generation);
            let place = (source.lane(), source.extent().bytes);
            assert_eq!((demotion.lane, demotion.bytes), place);
            let owners = [source.segment, demotion.disk]
                .map(|segment| view.space.get(segment).map(|share| share.spec.client));
            assert_eq!(owners, [Some(demotion.client); 2]);
            assert!(view.space.disks().contains(&demotion.disk));
        }
        for (disk, share) in view.space.iter().filter(|(_, share)| share.is_disk()) {
            let to_it = self.demotions.iter().filter(|(_, demotion)| demotion.disk == disk);
            let bytes: u64 = to_it.map(|(_, demotion)| demotion.bytes).sum();
            assert_eq!(share.coming_bytes, bytes, "{disk}");
        }
    }

    /// Without a bound there are no budgets; otherwise each disk has one.
    fn check_budgets(&self, space: &Space) {
        let Some(budgets) = &self.budgets else {
            return;
        };
        budgets.check();
        let ids = space.disks().iter().map(|disk| space.disk_id(*disk));
        assert!(ids.into_iter().all(|id| budgets.state(id).is_some()));
    }

    /// What lies on a disk is linked there, last in its chain and alone; its bytes are counted.
    fn check_copies(&self, view: ReadView<'_>) {
        let mut bytes_of: BTreeMap<u32, u64> = BTreeMap::new();
        for (id, replica) in view.stored.replicas.iter() {
            let share = view.space.get(replica.segment);
            let is_disk = share.is_some_and(SegmentShare::is_disk);
            assert_eq!(replica.is_on_disk(), is_disk, "replica {id}");
            if replica.is_on_disk() {
                assert_eq!(replica.sibling, NONE, "{id} is the last and only copy on a disk");
                *bytes_of.entry(replica.segment).or_default() += replica.payload_bytes;
            }
        }
        for (place, _) in view.stored.keys.packed().iter() {
            let copy = view.stored.keys.packed().copy(place);
            *bytes_of.entry(copy.disk).or_default() += copy.payload_bytes;
        }
        for disk in view.space.disks() {
            let counted = view.space.get(*disk).map(|share| share.copied_bytes);
            assert_eq!(counted, Some(bytes_of.get(disk).copied().unwrap_or_default()), "{disk}");
        }
    }

    /// A demotion came to nothing, and nothing of it was written.
    pub(crate) fn give_budget_back(&mut self, space: &Space, ended: &Demotion) {
        if let Some(budgets) = &mut self.budgets {
            budgets.give_back(space.disk_id(ended.disk), ended.bytes);
        }
    }

    pub(crate) fn refill_budgets(&mut self, space: &Space, now_ms: u64) {
        if let Some(budgets) = &mut self.budgets {
            budgets
                .refill(now_ms, |id| space.disks().iter().any(|disk| space.disk_id(*disk) == id));
        }
    }
}
