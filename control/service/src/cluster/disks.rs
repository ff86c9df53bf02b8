//! Disks of clients as all shards see them: each shard has its part of the demotions, the copies
//! and the tombstones.
//! Invariant: an announcement counts as whole only when every shard has heard its end.

use super::control_shard::ControlShard;
use super::merge::StatusCodes;
use super::scatter::KeySubset;
use perigee_master::{
    AdmissionLevel, AnnouncedCopy, BudgetState, DamagedPlace, DemotionTask, DiskReport, KeyShard,
    Tombstone,
};
use perigee_schemas::{DiskHealth, Identity, Status};
use perigee_shard::Environment;
use std::sync::Arc;

/// The budget of a disk from the parts of two shards; the tightest level counts.
fn joined(one: Option<BudgetState>, other: Option<BudgetState>) -> Option<BudgetState> {
    let (Some(one), Some(other)) = (one, other) else {
        return one.or(other);
    };
    Some(BudgetState {
        left_bytes: one.left_bytes.saturating_add(other.left_bytes),
        bytes_per_day: one.bytes_per_day.saturating_add(other.bytes_per_day),
        level: one.level.min(other.level),
    })
}

/// What a disk does not take for its budget; `None` if it takes all.
fn shortage(budget: BudgetState) -> Option<String> {
    let taken = match budget.level {
        AdmissionLevel::All => return None,
        AdmissionLevel::HeadsToo => "what was read or came back, and begins of prefixes, are",
        AdmissionLevel::Hits => "only what was read or came back is",
        AdmissionLevel::Nothing => "nothing is",
    };
    let percent = u128::from(budget.left_bytes) * 100 / u128::from(budget.bytes_per_day.max(1));
    Some(format!(
        "{taken} written: {percent} % of its write budget is left (--offload_drive_writes_per_day)"
    ))
}

/// Reports of disks in one answer: what fits in a frame with room to spare.
const DISK_REPORTS_MAX: usize = 8192;

/// Some copies that a disk has: columns with one entry per key.
#[derive(Clone)]
pub(crate) struct FoundCopies {
    pub(crate) client: Identity,
    pub(crate) disk: Identity,
    /// Empty for none.
    pub(crate) groups: Arc<[Arc<str>]>,
    pub(crate) generation: Arc<[u64]>,
    pub(crate) payload_bytes: Arc<[u64]>,
    pub(crate) checksum: Arc<[u32]>,
    pub(crate) address: Arc<[u64]>,
}

impl FoundCopies {
    fn copy_of<'a>(&'a self, key: &'a [u8], position: usize) -> AnnouncedCopy<'a> {
        AnnouncedCopy {
            key,
            group: &self.groups[position],
            generation: self.generation[position],
            payload_bytes: self.payload_bytes[position],
            checksum: self.checksum[position],
            // Logs do not have it.
            writer: 0,
            address: self.address[position],
        }
    }
}

impl<E: Environment> ControlShard<E> {
    /// Whether a client has something to do for its disks, and whether objects are to be moved from
    /// there.
    pub(super) async fn disk_work(&self, client: Identity) -> (bool, bool) {
        let (mut has_work, mut has_moves) = (false, false);
        for index in 0..self.members().len() {
            let ask = move |shard: &Self| {
                let keys = shard.keys.borrow();
                (keys.has_disk_work(client.0), keys.has_moves(client.0))
            };
            let (work, moves) = self.on(index, ask).await.flatten().unwrap_or_default();
            has_work |= work;
            has_moves |= moves;
        }
        (has_work, has_moves)
    }

    /// Demotions for a client, from all shards.
    pub(crate) async fn take_demotions(&self, client: Identity, limit: usize) -> Vec<DemotionTask> {
        let take = move |shard: &Self, room| {
            shard.keys.borrow_mut().take_demotions(shard.now_ms(), client.0, room)
        };
        self.take_from_all(limit, take).await
    }

    /// As `take_demotions` for a client that leaves, a share of each shard, and how many may be to
    /// come.
    pub(crate) async fn take_last_demotions(
        &self,
        client: Identity,
        limit: usize,
    ) -> (Vec<DemotionTask>, u64) {
        let shards = self.members().len();
        let share = (limit / shards.max(1)).max(1);
        let (mut tasks, mut left) = (Vec::new(), 0);
        for index in 0..shards {
            let take = move |shard: &Self| {
                shard.keys.borrow_mut().take_last_demotions(shard.now_ms(), client.0, share)
            };
            // One that does not answer may have some.
            let (part, more) = self.on(index, take).await.flatten().unwrap_or((Vec::new(), 1));
            tasks.extend(part);
            left += more;
        }
        (tasks, left)
    }

    /// Copies on a disk of a client that are void, and where those lie that readers have found
    /// damaged.
    ///
    /// # Errors
    /// As `KeyShard::tombstones`.
    pub(crate) async fn tombstones(
        &self,
        client: Identity,
        disk: Identity,
        limit: usize,
    ) -> Result<Vec<(Tombstone, Option<DamagedPlace>)>, Status> {
        let mut found = Vec::new();
        for index in 0..self.members().len() {
            let room = limit.saturating_sub(found.len());
            let ask = move |shard: &Self| {
                let keys = shard.keys.borrow();
                let number = keys.disk_number(disk.0).ok_or(Status::SegmentNotFound)?;
                let void = keys.tombstones(client.0, number, room)?;
                Ok(void
                    .into_iter()
                    .map(|one| (one, keys.suspect(number, &one)))
                    .collect::<Vec<_>>())
            };
            let part = self.on(index, ask).await.flatten();
            found.extend(part.unwrap_or(Err(Status::InternalError))?);
        }
        Ok(found)
    }

    /// The owner of a disk has made sure that void copies never come back.
    pub(crate) async fn confirm_tombstones(
        &self,
        client: Identity,
        disk: Identity,
        numbers: Vec<u64>,
    ) {
        let numbers: Arc<[u64]> = numbers.into();
        for index in 0..self.members().len() {
            let numbers = numbers.clone();
            self.on(index, move |shard| {
                let mut keys = shard.keys.borrow_mut();
                if let Some(number) = keys.disk_number(disk.0) {
                    keys.confirm_tombstones(shard.now_ms(), client.0, number, &numbers);
                }
            })
            .await;
        }
    }

    /// Learns what a disk has; one code per copy.
    pub(crate) async fn announce_copies(
        &self,
        keys: &[&[u8]],
        copies: FoundCopies,
        is_last: bool,
    ) -> Vec<i32> {
        let (client, disk) = (copies.client, copies.disk);
        let learn = move |owner: &mut KeyShard,
                          now: u64,
                          share: &KeySubset<'_>,
                          codes: &mut StatusCodes| {
            let part = share.keys.iter().zip(share.positions);
            let found: Vec<AnnouncedCopy<'_>> =
                part.map(|(key, position)| copies.copy_of(key, *position)).collect();
            match owner.disk_number(disk.0) {
                Some(number) => {
                    owner.announce_copies(now, client.0, number, &found, false, &mut codes.0);
                }
                None => codes.0.resize(found.len(), Status::SegmentNotFound.code()),
            }
        };
        let codes: StatusCodes = self.scatter(keys, learn).await;
        if is_last {
            self.end_announcement(client, disk).await;
        }
        codes.0
    }

    async fn end_announcement(&self, client: Identity, disk: Identity) {
        for index in 0..self.members().len() {
            self.on(index, move |shard| {
                let mut keys = shard.keys.borrow_mut();
                if let Some(number) = keys.disk_number(disk.0) {
                    let (now, none) = (shard.now_ms(), &mut Vec::new());
                    keys.announce_copies(now, client.0, number, &[], true, none);
                }
                drop(keys);
                shard.count_awaited();
            })
            .await;
        }
    }

    /// What owners have said of their disks last, up to a bound, and what keeps objects from those
    /// that are healthy.
    pub(crate) async fn disk_reports(&self) -> Vec<DiskReport> {
        let ask = |registry: &mut perigee_master::Registry, _: u64| {
            registry.disk_reports().take(DISK_REPORTS_MAX).cloned().collect()
        };
        let mut reports: Vec<DiskReport> = self.change_registry(ask).await.unwrap_or_default();
        let ids: Arc<[u128]> = reports.iter().map(|report| report.disk).collect();
        let mut budgets = vec![None; ids.len()];
        for index in 0..self.members().len() {
            let ids = ids.clone();
            let ask = move |shard: &Self| {
                let keys = shard.keys.borrow();
                ids.iter().map(|id| keys.write_budget(*id)).collect::<Vec<_>>()
            };
            let parts = self.on(index, ask).await.flatten().unwrap_or_default();
            for (whole, part) in budgets.iter_mut().zip(parts) {
                *whole = joined(*whole, part);
            }
        }
        for (report, budget) in reports.iter_mut().zip(budgets) {
            let is_well = report.health == DiskHealth::Healthy;
            if let Some(reason) = budget.and_then(shortage).filter(|_| is_well) {
                let said = std::mem::take(&mut report.reason);
                report.reason = if said.is_empty() { reason } else { format!("{reason}; {said}") };
            }
        }
        reports
    }

    /// The log of a client's disk goes on without its segments below `oldest`.
    pub(crate) async fn recycle(&self, client: Identity, disk: Identity, oldest: u32) -> Status {
        let change = move |registry: &mut perigee_master::Registry, now: u64| {
            registry.recycle(now, client.0, disk.0, oldest)
        };
        let recycled = self.change_registry(change).await;
        recycled.unwrap_or(Err(Status::InternalError)).err().unwrap_or(Status::Ok)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_of_all_shards_has_the_tightest_level_and_says_what_it_takes() {
        let part = |left_bytes, level| Some(BudgetState { left_bytes, bytes_per_day: 100, level });
        let whole = joined(part(30, AdmissionLevel::HeadsToo), part(10, AdmissionLevel::Hits));
        assert_eq!(joined(None, whole), whole);
        let reason = whole.and_then(shortage).unwrap();
        assert!(reason.starts_with("only what was read or came back is written: 20 %"), "{reason}");
        assert_eq!(part(90, AdmissionLevel::All).and_then(shortage), None);
    }
}
