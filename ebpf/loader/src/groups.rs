//! Whose connections are ours, by control group. Invariant: a round trip is counted once, whether
//! its group was known to be ours before it or became known within [`LEARNED_TURNS`] after it.

use crate::error::ProbeError;
use crate::limits::LEARNED_TURNS;
use crate::reading::sum_histograms;
use aya::Ebpf;
use aya::maps::{HashMap as KernelMap, MapError, PerCpuHashMap, PerCpuValues};
use perigee_probe_types::{DurationHistogram, GroupKey};
use std::collections::{BTreeMap, BTreeSet};

const OURS: &str = "OUR_GROUPS";
const OTHERS: &str = "OTHERS";

/// The groups of our processes, and what was counted in those that became ours.
#[derive(Default)]
pub(crate) struct Groups {
    ours: BTreeSet<u64>,
    others: BTreeMap<GroupKey, Seen>,
    /// By interface: round trips from before their group was known.
    taken_over: BTreeMap<u32, DurationHistogram>,
}

/// What a group had counted while it was not known.
#[derive(Clone, Copy)]
struct Seen {
    /// Counted already, or too long ago to be taken over.
    base: DurationHistogram,
    /// The base that comes next.
    next: DurationHistogram,
    turns: u32,
}

impl Groups {
    /// Counts connections of these groups from now on, and what the new ones among them have
    /// counted lately.
    pub(crate) fn sync(
        &mut self,
        ebpf: &mut Ebpf,
        wanted: &BTreeSet<u64>,
    ) -> Result<(), ProbeError> {
        let failed = |error| ProbeError::Map { map: OURS, error };
        let map = ebpf.map_mut(OURS).ok_or(ProbeError::Absent(OURS))?;
        let mut map = KernelMap::<_, u64, u8>::try_from(map).map_err(failed)?;
        for gone in self.ours.difference(wanted) {
            let _ = map.remove(gone);
        }
        self.ours.retain(|group| wanted.contains(group));
        for new in wanted {
            if !self.ours.contains(new) {
                map.insert(new, 1, 0).map_err(failed)?;
                self.ours.insert(*new);
            }
        }
        let failed = |error| ProbeError::Map { map: OTHERS, error };
        let map = ebpf.map(OTHERS).ok_or(ProbeError::Absent(OTHERS))?;
        let map = PerCpuHashMap::<_, GroupKey, DurationHistogram>::try_from(map).map_err(failed)?;
        let sum = |entry: Result<(GroupKey, _), MapError>| {
            let (key, values): (_, PerCpuValues<DurationHistogram>) = entry?;
            Ok((key, sum_histograms(values.iter())))
        };
        let read: Result<Vec<_>, MapError> = map.iter().map(sum).collect();
        self.sort(&read.map_err(failed)?);
        Ok(())
    }

    /// Takes over what belongs to groups that are ours.
    fn sort(&mut self, read: &[(GroupKey, DurationHistogram)]) {
        let mut before = std::mem::take(&mut self.others);
        for (key, now) in read {
            let none = DurationHistogram::EMPTY;
            let begin = Seen { base: none, next: none, turns: 0 };
            let mut seen = before.remove(key).unwrap_or(begin);
            if now.count < seen.next.count {
                // It had given way, and was made again.
                seen = begin;
            }
            if self.ours.contains(&key.group) {
                let taken_over = self.taken_over.entry(key.interface).or_default();
                taken_over.merge(&now.since(&seen.base));
                seen = Seen { base: *now, next: *now, turns: 0 };
            } else {
                seen.turns += 1;
                if seen.turns == LEARNED_TURNS {
                    seen = Seen { base: seen.next, next: *now, turns: 0 };
                }
            }
            self.others.insert(*key, seen);
        }
    }

    /// Round trips behind an interface from before their group was known.
    pub(crate) fn taken_over(&self, interface: u32) -> DurationHistogram {
        self.taken_over.get(&interface).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: GroupKey = GroupKey { group: 7, interface: 3, reserved: 0 };

    fn counted(values: u64) -> DurationHistogram {
        let mut found = DurationHistogram::EMPTY;
        (0..values).for_each(|_| found.add(1000));
        found
    }

    #[test]
    fn what_a_group_counted_before_it_was_known_is_taken_over_once() {
        let mut groups = Groups::default();
        groups.sort(&[(KEY, counted(5))]);
        assert_eq!(groups.taken_over(3).count, 0);
        groups.ours.insert(7);
        groups.sort(&[(KEY, counted(9))]);
        // One that had looked at the list of groups before it changed.
        groups.sort(&[(KEY, counted(10))]);
        groups.sort(&[(KEY, counted(10))]);
        assert_eq!(groups.taken_over(3), counted(10));
        groups.ours.clear();
        groups.sort(&[(KEY, counted(12))]);
        groups.ours.insert(7);
        groups.sort(&[(KEY, counted(13))]);
        assert_eq!(groups.taken_over(3).count, 13);
        assert_eq!(groups.taken_over(4).count, 0);
    }

    #[test]
    fn counts_that_are_taken_over_are_recent() {
        let mut groups = Groups::default();
        for turn in 1..=10 * u64::from(LEARNED_TURNS) {
            groups.sort(&[(KEY, counted(turn))]);
        }
        groups.ours.insert(7);
        groups.sort(&[(KEY, counted(10 * u64::from(LEARNED_TURNS) + 1))]);
        let taken_over = groups.taken_over(3).count;
        let least = u64::from(LEARNED_TURNS);
        assert!((least..=2 * least + 1).contains(&taken_over), "{taken_over}");
    }

    #[test]
    fn a_group_that_gave_way_and_came_back_begins_again() {
        let mut groups = Groups::default();
        for _ in 0..3 * LEARNED_TURNS {
            groups.sort(&[(KEY, counted(50))]);
        }
        groups.ours.insert(7);
        groups.sort(&[(KEY, counted(2))]);
        assert_eq!(groups.taken_over(3).count, 2);
        groups.sort(&[]);
        assert!(groups.others.is_empty());
    }
}
