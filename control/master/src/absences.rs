//! What changes while disks are away, kept apart by when each of them left.
//! Invariant: a key that changes after a disk left is found for that disk until it returns, and
//! what changed before it left is not held against it.

use std::collections::BTreeMap;

use crate::changed_keys::ChangedKeys;
use crate::limits::ABSENCE_PERIODS_MAX;

/// Disks that are away. A period begins when a disk leaves and ends when the next one does, so
/// that a disk that is gone for good costs the others nothing when they restart later.
#[derive(Debug, Default)]
pub(crate) struct Absences {
    /// The period in which each disk left, by identity of the disk.
    away: BTreeMap<u128, u64>,
    /// Keys that changed in each period; at least one disk left in each.
    periods: BTreeMap<u64, ChangedKeys>,
    /// Keys of which a disk had copies that is away.
    copied: ChangedKeys,
}

impl Absences {
    pub(crate) fn has(&self, disk: u128) -> bool {
        self.away.contains_key(&disk)
    }

    /// A disk hears of no change from now on. One that is away already stays in its older period.
    pub(crate) fn begin(&mut self, disk: u128) {
        if self.has(disk) {
            return;
        }
        let latest = self.periods.last_key_value();
        let period = match latest {
            Some((number, changed)) if changed.is_empty() => *number,
            Some((number, _)) => number + 1,
            None => 0,
        };
        self.periods.entry(period).or_default();
        self.away.insert(disk, period);
        if self.periods.len() > ABSENCE_PERIODS_MAX {
            self.join_oldest();
        }
    }

    /// Makes one of the two oldest periods: the disks that have been away longest are believed
    /// less.
    fn join_oldest(&mut self) {
        let second = self.periods.keys().nth(1).copied();
        if let Some(second) = second {
            let first = self.fold_into_older(second);
            let moved = self.away.values_mut().filter(|period| **period == second);
            moved.for_each(|period| *period = first);
        }
    }

    /// Adds the changes of a period to those of the one before it, if there is one: disks that left
    /// earlier have not heard of them either. Returns the number of that period.
    fn fold_into_older(&mut self, period: u64) -> u64 {
        let changed = self.periods.remove(&period).unwrap_or_default();
        match self.periods.range_mut(..period).next_back() {
            Some((number, older)) => {
                older.absorb(changed);
                *number
            }
            None => period,
        }
    }

    /// A disk has announced all that it has.
    pub(crate) fn end(&mut self, disk: u128) {
        let Some(period) = self.away.remove(&disk) else { return };
        if self.away.is_empty() {
            self.copied = ChangedKeys::default();
        }
        if !self.away.values().any(|of_other| *of_other == period) {
            self.fold_into_older(period);
        }
    }

    /// A disk that has left had a copy of a key.
    pub(crate) fn note_copy(&mut self, hash: u64) {
        if !self.away.is_empty() {
            self.copied.note(hash);
        }
    }

    /// Whether a disk that is away may have a copy of a key.
    pub(crate) fn may_have_copy(&self, hash: u64) -> bool {
        self.copied.may_have(hash)
    }

    /// A key is written or removed.
    pub(crate) fn note(&mut self, hash: u64) {
        if let Some(mut latest) = self.periods.last_entry() {
            latest.get_mut().note(hash);
        }
    }

    /// Any key may have been removed.
    pub(crate) fn note_all(&mut self) {
        if let Some(mut latest) = self.periods.last_entry() {
            latest.get_mut().note_all();
        }
    }

    /// Whether a key may have changed since a disk left.
    pub(crate) fn may_have_changed(&self, disk: u128, hash: u64) -> bool {
        self.away.get(&disk).is_some_and(|since| {
            self.periods.range(since..).any(|(_, changed)| changed.may_have(hash))
        })
    }

    /// Panics unless each period has a disk and each disk its period.
    pub(crate) fn check(&self) {
        assert!(self.periods.len() <= ABSENCE_PERIODS_MAX);
        assert!(!self.away.is_empty() || self.copied.is_empty(), "no disk is away");
        assert!(self.away.values().all(|period| self.periods.contains_key(period)));
        for period in self.periods.keys() {
            assert!(self.away.values().any(|of_disk| of_disk == period), "{period}");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_disk_that_is_gone_for_good_costs_later_restarts_nothing() {
        let mut absences = Absences::default();
        let (dead, restarted) = (1, 2);
        absences.begin(dead);
        absences.note(10);
        absences.begin(restarted);
        absences.note(11);
        absences.check();
        let of = |disk, absences: &Absences| [10, 11].map(|it| absences.may_have_changed(disk, it));
        assert_eq!(of(restarted, &absences), [false, true]);
        absences.end(restarted);
        absences.begin(restarted);
        absences.check();
        assert_eq!(of(restarted, &absences), [false, false], "both came before it left again");
        assert_eq!(of(dead, &absences), [true, true], "it has heard of neither");
        assert_eq!(of(3, &absences), [false, false], "a disk that is here hears of all");
        absences.note_copy(12);
        assert_eq!([11, 12].map(|it| absences.may_have_copy(it)), [false, true]);
        absences.end(restarted);
        assert!(absences.may_have_copy(12), "it may be the other one's");
        absences.end(dead);
        absences.check();
        absences.note_copy(12);
        assert!(
            !absences.may_have_copy(12) && absences.away.is_empty() && absences.periods.is_empty()
        );
    }

    #[test]
    fn of_many_that_are_away_the_first_are_believed_less() {
        let mut absences = Absences::default();
        let last = ABSENCE_PERIODS_MAX as u128 + 4;
        for disk in 0..=last {
            absences.begin(disk);
            absences.note(disk as u64);
            absences.check();
        }
        assert!(absences.may_have_changed(5, 0), "their periods are one by now");
        assert!(!absences.may_have_changed(last, last as u64 - 1));
        assert!(absences.may_have_changed(last, last as u64));
    }

    #[derive(Debug, Clone)]
    enum Step {
        Begin(u128),
        End(u128),
        Note(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (0..40u128).prop_map(Step::Begin),
            (0..40u128).prop_map(Step::End),
            (0..500u64).prop_map(Step::Note),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn what_changes_after_a_disk_left_is_found(steps in prop::collection::vec(step(), 1..120)) {
            let mut absences = Absences::default();
            let mut unheard: BTreeMap<u128, BTreeSet<u64>> = BTreeMap::new();
            for step in steps {
                match step {
                    Step::Begin(disk) => {
                        absences.begin(disk);
                        unheard.entry(disk).or_default();
                    }
                    Step::End(disk) => {
                        absences.end(disk);
                        unheard.remove(&disk);
                    }
                    Step::Note(hash) => {
                        absences.note(hash);
                        unheard.values_mut().for_each(|hashes| hashes.extend([hash]));
                    }
                }
                absences.check();
                prop_assert_eq!(absences.away.is_empty(), unheard.is_empty());
                for (disk, hashes) in &unheard {
                    prop_assert!(hashes.iter().all(|hash| absences.may_have_changed(*disk, *hash)));
                }
            }
        }
    }
}
