//! Which disk is to have a copy of what memory loses, if any.
//! Invariant: what is refused for the budget of its disk goes without a copy and without an error;
//! without budgets nothing is refused.

use crate::counters::ShardCounters;
use crate::departures::{DepartureCause, DiskOutcome};
use crate::disk_wish::DiskWish;
use crate::object::Flags;
use crate::read_view::ReadView;
use crate::space::Space;
use crate::stored::StoredObjects;
use crate::write_budget::{AdmissionLevel, DiskWorth};

use super::DiskTier;

impl DiskTier {
    /// The disk that is to have a copy of a replica: its bytes lie nowhere else, and its owner has
    /// a disk with room and budget. Of several the one whose turn it is. What lies in parts goes to
    /// no disk.
    pub(crate) fn wish(&self, view: ReadView<'_>, id: u32) -> DiskWish {
        if self.offload.is_none() {
            return DiskWish::None;
        }
        if !view.lies_only_there(id) {
            return DiskWish::None;
        }
        let replica = &view.stored.replicas[id];
        let bytes = replica.extent().bytes;
        let (mut best, mut refused, mut has_void) = (None, None, false);
        let hash = view.stored.keys[replica.object].hash();
        for (disk, share) in view.space.disks_for(view.carrier_of(id), bytes) {
            if self.tombstones.is_void(disk, hash, replica.generation) {
                // What its owner makes void would be this copy, too.
                has_void = true;
                continue;
            }
            let admitted = self.budgets.as_ref().map_or(Ok(()), |budgets| {
                budgets.admit(share.spec.id, self.worth(view.stored, id), bytes)
            });
            match admitted {
                Ok(()) => {
                    let candidate = (share.disk_rank(), disk);
                    best = Some(best.map_or(candidate, |known| candidate.min(known)));
                }
                Err(level) => refused = refused.max(Some(level)),
            }
        }
        match (best, refused) {
            (Some((_, disk)), _) => DiskWish::To(disk),
            _ if has_void
                || view.space.has_disk_soon(
                    view.carrier_of(id),
                    bytes,
                    view.stored.clock.now_ms(),
                ) =>
            {
                DiskWish::Soon
            }
            (None, Some(level)) => DiskWish::Refused(level),
            (None, None) => DiskWish::None,
        }
    }

    pub(super) fn worth(&self, stored: &StoredObjects, id: u32) -> DiskWorth {
        let replica = &stored.replicas[id];
        let record = &stored.keys[replica.object];
        let group = stored.groups.get(record.group);
        DiskWorth {
            is_hit: group.map_or(record.flags.has(Flags::HIT), |group| group.seen.hit),
            is_head: replica.is_head(),
        }
    }

    /// Whether a replica that goes without a copy is the last one, and an owner of memory in which
    /// its object lies has a disk.
    pub(super) fn is_unsaved(&self, view: ReadView<'_>, id: u32) -> bool {
        let is_last = view.stored.replicas[id].part().is_some() || view.lies_only_there(id);
        let mut all =
            view.stored.replicas.chain(view.stored.keys[view.stored.replicas[id].object].first);
        self.offload.is_some() && is_last && all.any(|it| view.space.has_disk(view.carrier_of(it)))
    }

    /// Whether eviction of a replica loses bytes that a disk was to have.
    pub(crate) fn is_wanted(&self, view: ReadView<'_>, id: u32) -> bool {
        matches!(self.wish(view, id), DiskWish::To(_) | DiskWish::Soon)
    }

    /// Whether what is evicted from a segment is to have a copy on a disk first.
    pub(crate) fn saves_first(&self, view: ReadView<'_>, segment: u32) -> bool {
        let share = view.space.get(segment);
        let is_kept = self.offload.is_some_and(|offload| !offload.force_evict);
        let has_disk = |client| {
            view.space.disks_for(client, 1).next().is_some()
                || view.space.has_disk_soon(client, 1, view.stored.clock.now_ms())
        };
        is_kept && share.is_some_and(|share| has_disk(share.spec.client))
    }

    pub(crate) fn outcome(
        &self,
        view: ReadView<'_>,
        id: u32,
        cause: DepartureCause,
    ) -> DiskOutcome {
        use DepartureCause::{PutNeededRoom, TenantQuota, Watermark, WithItsGroup};
        if !matches!(cause, PutNeededRoom | TenantQuota | Watermark | WithItsGroup) {
            return DiskOutcome::Settled;
        }
        match self.wish(view, id) {
            DiskWish::None if !self.is_unsaved(view, id) => DiskOutcome::Settled,
            DiskWish::None | DiskWish::To(_) | DiskWish::Soon => DiskOutcome::NotWritten,
            DiskWish::Refused(_) => DiskOutcome::OverBudget,
        }
    }

    /// Whether a key may have changed without a disk having heard of it.
    pub(crate) fn has_changed_for(&self, space: &Space, disk: u32, hash: u64) -> bool {
        let id = space.get(disk).map_or(0, |share| share.spec.id);
        self.tombstones.may_have_changed(id, hash)
    }

    /// Counts a key that is evicted and could have been kept on a disk.
    pub(crate) fn count_unsaved(&self, view: ReadView<'_>, counters: &mut ShardCounters, id: u32) {
        let wish = self.wish(view, id);
        let is_unsaved = self.is_unsaved(view, id);
        let refused = &mut counters.demotions_refused;
        match wish {
            // In parts, or the disks of its owner are not well or full.
            DiskWish::None => counters.unsaved_keys += u64::from(is_unsaved),
            DiskWish::To(_) | DiskWish::Soon => counters.unsaved_keys += 1,
            DiskWish::Refused(AdmissionLevel::HeadsToo) => refused.heads_too += 1,
            DiskWish::Refused(AdmissionLevel::Hits) => refused.hits += 1,
            // A bucket that is full enough for all may still lack room for a very large object.
            DiskWish::Refused(AdmissionLevel::Nothing | AdmissionLevel::All) => {
                refused.nothing += 1;
            }
        }
    }
}
