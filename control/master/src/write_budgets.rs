//! The write budgets of all disks, by identity: a disk that leaves and comes back has what it had.
//! Invariant: each disk that is mounted has one; those of others are forgotten once they are full.

use std::collections::BTreeMap;

use crate::limits::ABSENT_BUDGETS_MAX;
use crate::write_budget::{AdmissionLevel, BudgetState, DiskWorth, WriteBudget};

/// A shard's parts of the budgets.
#[derive(Debug)]
pub(crate) struct WriteBudgets {
    /// Part of a disk's bytes that this shard may write in a day.
    part_per_day: f64,
    by_disk: BTreeMap<u128, WriteBudget>,
}

impl WriteBudgets {
    /// For one of `shards` shards; `None` if as much may be written as comes.
    pub(crate) fn new(drive_writes_per_day: f64, shards: usize) -> Option<Self> {
        let part_per_day = drive_writes_per_day / shards.max(1) as f64;
        (part_per_day > 0.0).then(|| Self { part_per_day, by_disk: BTreeMap::new() })
    }

    /// A disk of so many bytes is there.
    pub(crate) fn mount(&mut self, disk: u128, bytes: u64, now_ms: u64) {
        let bytes_per_day = (bytes as f64 * self.part_per_day) as u64;
        let known = self.by_disk.entry(disk);
        let budget = known.or_insert_with(|| WriteBudget::new(bytes_per_day, now_ms));
        budget.resize(bytes_per_day);
    }

    /// Counts what has flowed in.
    pub(crate) fn refill(&mut self, now_ms: u64, is_mounted: impl Fn(u128) -> bool) {
        let mut absent = 0;
        self.by_disk.retain(|disk, budget| {
            budget.refill(now_ms);
            let is_absent = !is_mounted(*disk);
            absent += usize::from(is_absent);
            !is_absent || !(budget.is_full() || absent > ABSENT_BUDGETS_MAX)
        });
    }

    /// Whether a disk takes an object; otherwise what it takes at present.
    pub(crate) fn admit(
        &self,
        disk: u128,
        worth: DiskWorth,
        bytes: u64,
    ) -> Result<(), AdmissionLevel> {
        self.by_disk.get(&disk).map_or(Ok(()), |budget| budget.admit(worth, bytes))
    }

    /// Takes the bytes of an object that is going to be written.
    pub(crate) fn take(&mut self, disk: u128, bytes: u64) {
        if let Some(budget) = self.by_disk.get_mut(&disk) {
            budget.take(bytes);
        }
    }

    /// Gives back what was not written after all.
    pub(crate) fn give_back(&mut self, disk: u128, bytes: u64) {
        if let Some(budget) = self.by_disk.get_mut(&disk) {
            budget.give_back(bytes);
        }
    }

    pub(crate) fn state(&self, disk: u128) -> Option<BudgetState> {
        self.by_disk.get(&disk).map(WriteBudget::state)
    }

    /// Panics unless each budget is within its bounds.
    pub(crate) fn check(&self) {
        self.by_disk.values().for_each(WriteBudget::check);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::DAY_MS;

    const WORTHLESS: DiskWorth = DiskWorth { is_hit: false, is_head: false };

    #[test]
    fn without_a_number_there_are_none_and_shards_have_equal_parts() {
        assert!(WriteBudgets::new(0.0, 4).is_none());
        let mut budgets = WriteBudgets::new(2.0, 4).unwrap();
        budgets.mount(7, 4000, 0);
        assert_eq!(budgets.state(7).unwrap().bytes_per_day, 2000);
        assert_eq!(budgets.admit(8, WORTHLESS, u64::MAX), Ok(()), "an unknown disk has no budget");
    }

    #[test]
    fn a_disk_that_comes_back_has_what_it_had_and_is_forgotten_once_it_has_all() {
        let mut budgets = WriteBudgets::new(1.0, 1).unwrap();
        budgets.mount(7, 1_000_000, 0);
        budgets.take(7, 900_000);
        budgets.refill(1, |_| false);
        budgets.mount(7, 1_000_000, 1);
        assert_eq!(budgets.state(7).unwrap().left_bytes, 100_000);
        budgets.refill(DAY_MS, |_| false);
        assert_eq!(budgets.state(7), None);
        budgets.check();
    }

    #[test]
    fn a_disk_that_has_become_smaller_keeps_no_more_than_a_day_of_it() {
        let mut budgets = WriteBudgets::new(1.0, 1).unwrap();
        budgets.mount(7, 1000, 0);
        budgets.mount(7, 500, 0);
        assert_eq!(budgets.state(7).unwrap().left_bytes, 500);
        budgets.check();
    }
}
