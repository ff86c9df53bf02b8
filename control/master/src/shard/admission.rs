//! Which disk is to have a copy of what memory loses, if any.
//! Invariant: what is refused for the budget of its disk goes without a copy and without an error;
//! without budgets nothing is refused.

use crate::demotion::Demotion;
use crate::object::Flags;
use crate::write_budget::{AdmissionLevel, BudgetState, DiskWorth};

use super::KeyShard;

/// What is to become of a replica that goes, as far as disks are concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DiskWish {
    /// No disk need have it, or none can.
    None,
    /// This disk is to have a copy first.
    To(u32),
    /// A disk is to have a copy, and takes none before its owner has answered for it.
    Soon,
    /// Its owner's disks have room, but no budget for it; what they take instead.
    Refused(AdmissionLevel),
}

impl KeyShard {
    /// The disk that is to have a copy of a replica: its bytes lie nowhere else, and its owner has
    /// a disk with room and budget. Of several the one whose turn it is. What lies in parts goes to
    /// no disk.
    pub(super) fn disk_wish(&self, id: u32) -> DiskWish {
        if self.settings.offload.is_none() {
            return DiskWish::None;
        }
        if !self.view().lies_only_there(id) {
            return DiskWish::None;
        }
        let replica = &self.stored.replicas[id];
        let bytes = replica.extent().bytes;
        let (mut best, mut refused, mut has_void) = (None, None, false);
        let hash = self.stored.keys[replica.object].hash();
        for (disk, share) in self.space.disks_for(self.view().carrier_of(id), bytes) {
            if self.tombstones.is_void(disk, hash, replica.generation) {
                // What its owner makes void would be this copy, too.
                has_void = true;
                continue;
            }
            let admitted = self
                .budgets
                .as_ref()
                .map_or(Ok(()), |budgets| budgets.admit(share.spec.id, self.disk_worth(id), bytes));
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
                || self.space.has_disk_soon(
                    self.view().carrier_of(id),
                    bytes,
                    self.stored.clock.now_ms(),
                ) =>
            {
                DiskWish::Soon
            }
            (None, Some(level)) => DiskWish::Refused(level),
            (None, None) => DiskWish::None,
        }
    }

    fn disk_worth(&self, id: u32) -> DiskWorth {
        let replica = &self.stored.replicas[id];
        let record = &self.stored.keys[replica.object];
        let group = self.stored.groups.get(record.group);
        DiskWorth {
            is_hit: group.map_or(record.flags.has(Flags::HIT), |group| group.seen.hit),
            is_head: replica.is_head(),
        }
    }

    /// Counts a key that is evicted and could have been kept on a disk.
    pub(super) fn count_unsaved(&mut self, id: u32) {
        let wish = self.disk_wish(id);
        let is_unsaved = self.is_unsaved(id);
        let refused = &mut self.counters.demotions_refused;
        match wish {
            // In parts, or the disks of its owner are not well or full.
            DiskWish::None => self.counters.unsaved_keys += u64::from(is_unsaved),
            DiskWish::To(_) | DiskWish::Soon => self.counters.unsaved_keys += 1,
            DiskWish::Refused(AdmissionLevel::HeadsToo) => refused.heads_too += 1,
            DiskWish::Refused(AdmissionLevel::Hits) => refused.hits += 1,
            // A bucket that is full enough for all may still lack room for a very large object.
            DiskWish::Refused(AdmissionLevel::Nothing | AdmissionLevel::All) => {
                refused.nothing += 1;
            }
        }
    }

    /// Whether a replica that goes without a copy is the last one, and an owner of memory in which
    /// its object lies has a disk.
    pub(super) fn is_unsaved(&self, id: u32) -> bool {
        let is_last = self.stored.replicas[id].part().is_some() || self.view().lies_only_there(id);
        let mut all =
            self.stored.replicas.chain(self.stored.keys[self.stored.replicas[id].object].first);
        self.settings.offload.is_some()
            && is_last
            && all.any(|it| self.space.has_disk(self.view().carrier_of(it)))
    }

    /// A demotion came to nothing, and nothing of it was written.
    pub(super) fn give_budget_back(&mut self, ended: &Demotion) {
        if let Some(budgets) = &mut self.budgets {
            budgets.give_back(self.space.disk_id(ended.disk), ended.bytes);
        }
    }

    pub(super) fn refill_budgets(&mut self) {
        if let Some(budgets) = &mut self.budgets {
            let space = &self.space;
            budgets.refill(self.stored.clock.now_ms(), |id| {
                space.disks().iter().any(|disk| space.disk_id(*disk) == id)
            });
        }
    }

    /// How this shard's part of a disk's write budget stands; `None` without one.
    pub fn write_budget(&self, disk: u128) -> Option<BudgetState> {
        self.budgets.as_ref()?.state(disk)
    }
}
