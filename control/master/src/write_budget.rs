//! How much may be written to a disk, so that it lasts: a bucket that fills with time, and what is
//! admitted at each of its levels.
//! Invariant: in any time no more is taken than the bucket holds when it is full and what has
//! flowed in since. What is admitted depends on the object and on the level, never on chance: one
//! block that is missing ends a prefix.

use crate::limits::{
    BUDGET_LEVEL_FREE, BUDGET_LEVEL_RETURN, BUDGET_LEVEL_SHORT, BUDGET_LEVEL_SPENT, DAY_MS,
};

/// What is known of an object's worth on a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct DiskWorth {
    /// It was read, or came back soon after it was evicted.
    pub(crate) is_hit: bool,
    /// It was among the first of its batch, and so of a prefix.
    pub(crate) is_head: bool,
}

/// What a disk takes, from the fill of its bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum AdmissionLevel {
    /// Nothing: the budget is spent.
    Nothing,
    /// What was read or came back.
    Hits,
    /// That, and the begins of prefixes.
    HeadsToo,
    /// Everything.
    #[default]
    All,
}

impl AdmissionLevel {
    /// All levels with their words, the tightest first.
    pub const ALL: [(&'static str, Self); 4] = [
        ("nothing", Self::Nothing),
        ("hits", Self::Hits),
        ("heads_too", Self::HeadsToo),
        ("all", Self::All),
    ];

    /// Its word.
    #[must_use]
    pub fn word(self) -> &'static str {
        Self::ALL.into_iter().find(|(_, level)| *level == self).map_or("", |(word, _)| word)
    }

    /// Part of the bucket, in 1000, below which it is left for a tighter one.
    fn floor(self) -> u64 {
        match self {
            Self::Nothing => 0,
            Self::Hits => BUDGET_LEVEL_SPENT,
            Self::HeadsToo => BUDGET_LEVEL_SHORT,
            Self::All => BUDGET_LEVEL_FREE,
        }
    }

    fn admits(self, worth: DiskWorth) -> bool {
        match self {
            Self::Nothing => false,
            Self::Hits => worth.is_hit,
            Self::HeadsToo => worth.is_hit || worth.is_head,
            Self::All => true,
        }
    }
}

/// How the budget of one disk stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BudgetState {
    /// What may be written at once.
    pub left_bytes: u64,
    /// What flows in within a day, which is the most that is kept.
    pub bytes_per_day: u64,
    /// What is admitted.
    pub level: AdmissionLevel,
}

/// The budget of one disk, or of a shard's part of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WriteBudget {
    /// What flows in within a day, which is what the bucket holds.
    bytes_per_day: u64,
    left_bytes: u64,
    /// Until when what flows in has been counted, and the part of a byte that is not yet one, in
    /// parts of a day.
    filled_ms: u64,
    flowed_bytes_ms: u64,
    level: AdmissionLevel,
}

impl WriteBudget {
    /// A full bucket.
    pub(crate) fn new(bytes_per_day: u64, now_ms: u64) -> Self {
        Self {
            bytes_per_day,
            left_bytes: bytes_per_day,
            filled_ms: now_ms,
            flowed_bytes_ms: 0,
            level: AdmissionLevel::All,
        }
    }

    /// Counts what has flowed in.
    pub(crate) fn refill(&mut self, now_ms: u64) {
        let elapsed_ms = now_ms.saturating_sub(self.filled_ms).min(DAY_MS);
        self.filled_ms = self.filled_ms.max(now_ms);
        let flowed = u128::from(self.bytes_per_day) * u128::from(elapsed_ms)
            + u128::from(self.flowed_bytes_ms);
        let bytes = u64::try_from(flowed / u128::from(DAY_MS)).unwrap_or(u64::MAX);
        self.flowed_bytes_ms = (flowed % u128::from(DAY_MS)) as u64;
        self.left_bytes = self.left_bytes.saturating_add(bytes).min(self.bytes_per_day);
        self.look();
    }

    /// Takes the bytes of an object that is going to be written.
    pub(crate) fn take(&mut self, bytes: u64) {
        self.left_bytes = self.left_bytes.saturating_sub(bytes);
        self.look();
    }

    /// Gives back what was not written after all.
    pub(crate) fn give_back(&mut self, bytes: u64) {
        self.left_bytes = self.left_bytes.saturating_add(bytes).min(self.bytes_per_day);
        self.look();
    }

    /// Whether an object of so many bytes is written; otherwise what is.
    pub(crate) fn admit(&self, worth: DiskWorth, bytes: u64) -> Result<(), AdmissionLevel> {
        match bytes <= self.left_bytes && self.level.admits(worth) {
            true => Ok(()),
            false => Err(self.level),
        }
    }

    /// From now on so many bytes flow in within a day.
    pub(crate) fn resize(&mut self, bytes_per_day: u64) {
        self.bytes_per_day = bytes_per_day;
        self.left_bytes = self.left_bytes.min(bytes_per_day);
        self.look();
    }

    pub(crate) fn is_full(&self) -> bool {
        self.left_bytes == self.bytes_per_day
    }

    pub(crate) fn state(&self) -> BudgetState {
        let Self { left_bytes, bytes_per_day, level, .. } = *self;
        BudgetState { left_bytes, bytes_per_day, level }
    }

    /// Goes down as soon as there is too little for a level, and up again only with some more than
    /// it needs: at the border each object would else find another level, which is chance.
    fn look(&mut self) {
        let is_above = |per_mille: u64| {
            let floor = u128::from(self.bytes_per_day) * u128::from(per_mille) / 1000;
            u128::from(self.left_bytes) >= floor
        };
        let kept = |level: AdmissionLevel| match level {
            AdmissionLevel::Nothing => true,
            level if level <= self.level => is_above(level.floor()),
            level => is_above(level.floor() + BUDGET_LEVEL_RETURN),
        };
        let levels = AdmissionLevel::ALL.into_iter().rev().map(|(_, level)| level);
        self.level = levels.into_iter().find(|level| kept(*level)).unwrap_or_default();
    }

    pub(crate) fn check(&self) {
        assert!(self.left_bytes <= self.bytes_per_day);
        let mut again = self.clone();
        again.look();
        assert_eq!(again.level, self.level, "a second look finds the same");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{any, prop, proptest};

    const DAY_BYTES: u64 = 1_000_000;

    fn worth(is_hit: bool, is_head: bool) -> DiskWorth {
        DiskWorth { is_hit, is_head }
    }

    /// A budget of which so many thousandths are left.
    fn left(per_mille: u64) -> WriteBudget {
        let mut budget = WriteBudget::new(DAY_BYTES, 0);
        budget.take(DAY_BYTES - DAY_BYTES / 1000 * per_mille);
        budget
    }

    #[test]
    fn the_emptier_the_bucket_the_less_is_admitted() {
        let admitted = |per_mille| {
            let all = [worth(false, false), worth(false, true), worth(true, false)];
            all.map(|worth| left(per_mille).admit(worth, 100).is_ok())
        };
        assert_eq!(admitted(BUDGET_LEVEL_FREE), [true; 3]);
        assert_eq!(admitted(BUDGET_LEVEL_FREE - 1), [false, true, true]);
        assert_eq!(admitted(BUDGET_LEVEL_SHORT), [false, true, true]);
        assert_eq!(admitted(BUDGET_LEVEL_SHORT - 1), [false, false, true]);
        assert_eq!(admitted(BUDGET_LEVEL_SPENT), [false, false, true]);
        assert_eq!(admitted(BUDGET_LEVEL_SPENT - 1), [false; 3]);
        assert_eq!(admitted(0), [false; 3]);
        assert_eq!(left(0).admit(worth(true, true), 1), Err(AdmissionLevel::Nothing));
    }

    #[test]
    fn a_level_comes_back_only_with_some_more_than_it_needs() {
        let mut budget = left(BUDGET_LEVEL_FREE - 1);
        let hour_ms = DAY_MS / 24;
        budget.refill(hour_ms / 2);
        assert!(budget.state().left_bytes > DAY_BYTES / 2, "above the border again");
        assert_eq!(budget.state().level, AdmissionLevel::HeadsToo);
        budget.refill(hour_ms * 2);
        assert_eq!(budget.state().level, AdmissionLevel::All);
    }

    #[test]
    fn what_was_not_written_comes_back_and_no_more_than_a_day_is_kept() {
        let mut budget = left(900);
        budget.give_back(DAY_BYTES / 10);
        assert!(budget.is_full());
        budget.give_back(DAY_BYTES);
        budget.refill(3 * DAY_MS);
        assert_eq!(budget.state().left_bytes, DAY_BYTES);
    }

    #[test]
    fn many_looks_let_as_much_in_as_one() {
        let (mut often, mut once) = (left(0), left(0));
        (1..=DAY_MS / 24 / 7).for_each(|step| often.refill(step * 7));
        once.refill(DAY_MS / 24 / 7 * 7);
        assert_eq!(often.state(), once.state());
    }

    proptest! {
        #[test]
        fn in_any_time_no_more_is_taken_than_the_bucket_holds_and_what_flowed_in(
            day_bytes in 0_u64..1 << 50,
            steps in prop::collection::vec(
                (0_u64..DAY_MS / 4, 0_u64..1 << 48, any::<[bool; 2]>()),
                1..200,
            ),
        ) {
            let mut budget = WriteBudget::new(day_bytes, 0);
            let (mut now_ms, mut taken) = (0, 0_u128);
            for (pause_ms, bytes, [is_hit, is_head]) in steps {
                now_ms += pause_ms;
                budget.refill(now_ms);
                budget.check();
                if budget.admit(worth(is_hit, is_head), bytes).is_ok() {
                    budget.take(bytes);
                    taken += u128::from(bytes);
                }
                budget.check();
                let inflow = u128::from(day_bytes) * u128::from(now_ms) / u128::from(DAY_MS);
                assert!(taken <= u128::from(day_bytes) + inflow);
            }
        }

        #[test]
        fn what_is_worth_more_is_admitted_wherever_what_is_worth_less_is(
            per_mille in 0_u64..=1000,
            bytes in 0_u64..DAY_BYTES,
        ) {
            let budget = left(per_mille);
            let admits = |is_hit, is_head| budget.admit(worth(is_hit, is_head), bytes).is_ok();
            assert!(!admits(false, false) || admits(false, true));
            assert!(!admits(false, true) || admits(true, false));
        }
    }
}
