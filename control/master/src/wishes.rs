//! Objects that are to have more replicas in memory, because they lost some with their segments or
//! are read often.
//! Invariant: an object has one wish at most, which is due at a time, under way, or put off until
//! there is more room somewhere.

use std::collections::{BTreeMap, BTreeSet};

use perigee_schemas::Status;

use crate::limits::REPAIR_RETRIES_MAX;
use crate::rebuild::Rebuild;
use crate::stored::StoredObjects;
use crate::tries::{RetryRule, Tries};

const RULE: RetryRule =
    RetryRule { retries_max: REPAIR_RETRIES_MAX, pauses_grow: true, no_room_patience_ms: None };

/// Why an object is to have more replicas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    /// It lost some. It is tried until it has them.
    Loss,
    /// It is read often. It is tried once.
    Heat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    Due(u64),
    UnderWay,
    PutOff,
}

#[derive(Debug, Clone, Copy)]
struct Wish {
    /// Replicas in memory that the object is to have.
    replicas: u32,
    cause: Cause,
    tries: Tries,
    standing: Standing,
}

#[derive(Debug, Default)]
pub(crate) struct Wishes {
    by_object: BTreeMap<u32, Wish>,
    due: BTreeSet<(u64, u32)>,
    put_off: BTreeSet<u32>,
    /// From which object on those that were put off are due again.
    recalled: Option<u32>,
}

impl Wishes {
    /// An object is to have at least so many replicas; what was lost comes before heat. False if
    /// that is one wish too many.
    pub(crate) fn add(
        &mut self,
        object: u32,
        cause: Cause,
        replicas: u32,
        now_ms: u64,
        most: usize,
    ) -> bool {
        debug_assert!(replicas > 1, "one replica is no reason to copy");
        if let Some(wish) = self.by_object.get_mut(&object) {
            match (wish.cause, cause) {
                (Cause::Heat, Cause::Loss) => (wish.cause, wish.replicas) = (cause, replicas),
                (Cause::Loss, Cause::Heat) => {}
                _ => wish.replicas = wish.replicas.max(replicas),
            }
            return true;
        }
        if self.by_object.len() >= most {
            return false;
        }
        let (standing, tries) = (Standing::Due(now_ms), Tries::default());
        self.by_object.insert(object, Wish { replicas, cause, tries, standing });
        self.due.insert((now_ms, object));
        true
    }

    /// An object has what it was to have, or is gone.
    pub(crate) fn forget(&mut self, object: u32) {
        if let Some(wish) = self.by_object.remove(&object) {
            self.unlink(object, wish.standing);
        }
    }

    /// Replicas that an object is to have.
    pub(crate) fn replicas(&self, object: u32) -> u32 {
        self.by_object.get(&object).map_or(0, |wish| wish.replicas)
    }

    /// Why an object is to have them.
    pub(crate) fn cause(&self, object: u32) -> Option<Cause> {
        self.by_object.get(&object).map(|wish| wish.cause)
    }

    /// Tries of the next copy that failed.
    pub(crate) fn failed(&self, object: u32) -> u32 {
        self.by_object.get(&object).map_or(0, |wish| wish.tries.failed())
    }

    /// Whether something is to be done now.
    pub(crate) fn are_due(&self, now_ms: u64) -> bool {
        self.recalled.is_some() || self.due.first().is_some_and(|(due_ms, _)| *due_ms <= now_ms)
    }

    /// Objects that are due, those that have waited longest first, at most `limit`.
    pub(crate) fn next(&mut self, now_ms: u64, limit: usize) -> Vec<u32> {
        if let Some(from) = self.recalled {
            let back: Vec<u32> = self.put_off.range(from..).copied().take(limit).collect();
            back.iter().for_each(|object| self.set_due(*object, now_ms));
            let after = back.last().and_then(|last| last.checked_add(1));
            self.recalled = after.filter(|_| back.len() == limit);
        }
        let due = self.due.range(..=(now_ms, u32::MAX));
        due.map(|(_, object)| *object).take(limit).collect()
    }

    /// There may be more room than before: what was put off is tried again.
    pub(crate) fn recall(&mut self) {
        self.recalled = (!self.put_off.is_empty()).then_some(0);
    }

    /// The next copy of an object is under way.
    pub(crate) fn begin(&mut self, object: u32) {
        self.set(object, Standing::UnderWay);
    }

    /// An object is looked at again at that time.
    pub(crate) fn set_due(&mut self, object: u32, due_ms: u64) {
        self.set(object, Standing::Due(due_ms));
    }

    /// A copy is good; the next one starts afresh.
    pub(crate) fn note_done(&mut self, object: u32) {
        if let Some(wish) = self.by_object.get_mut(&object) {
            wish.tries.note_done();
        }
    }

    /// A copy failed. After some of these it is put off, unless one try was enough.
    pub(crate) fn note_failure(&mut self, object: u32, now_ms: u64, status: Status) {
        let Some(wish) = self.by_object.get_mut(&object) else {
            return;
        };
        if wish.cause == Cause::Heat {
            return self.forget(object);
        }
        wish.tries.note_failure(now_ms, status, &RULE);
        match wish.tries.given_up() {
            Some(_) => self.put_off(object),
            None => {
                let due_ms = wish.tries.next_ms();
                self.set_due(object, due_ms);
            }
        }
    }

    /// Nothing can be done for an object as things are.
    pub(crate) fn put_off(&mut self, object: u32) {
        if let Some(wish) = self.by_object.get_mut(&object) {
            wish.tries = Tries::default();
        }
        self.set(object, Standing::PutOff);
    }

    pub(crate) fn len(&self) -> usize {
        self.by_object.len()
    }

    /// Of these, those that are put off.
    pub(crate) fn count_put_off(&self) -> usize {
        self.put_off.len()
    }

    fn set(&mut self, object: u32, standing: Standing) {
        let Some(wish) = self.by_object.get_mut(&object) else {
            return;
        };
        let before = std::mem::replace(&mut wish.standing, standing);
        self.unlink(object, before);
        match standing {
            Standing::Due(due_ms) => {
                self.due.insert((due_ms, object));
            }
            Standing::PutOff => {
                self.put_off.insert(object);
            }
            Standing::UnderWay => {}
        }
    }

    fn unlink(&mut self, object: u32, standing: Standing) {
        let was_there = match standing {
            Standing::Due(due_ms) => self.due.remove(&(due_ms, object)),
            Standing::PutOff => self.put_off.remove(&object),
            Standing::UnderWay => true,
        };
        debug_assert!(was_there, "{object} was linked");
    }

    /// Panics unless the orders agree with the wishes, and each is under way exactly if its object
    /// is being copied for it.
    pub(crate) fn check(&self, is_copied: impl Fn(u32) -> bool) {
        let (mut due, mut put_off) = (0, 0);
        for (object, wish) in &self.by_object {
            wish.tries.check(&RULE);
            assert_eq!(wish.standing == Standing::UnderWay, is_copied(*object), "{object}");
            match wish.standing {
                Standing::Due(due_ms) => {
                    assert!(self.due.contains(&(due_ms, *object)));
                    due += 1;
                }
                Standing::PutOff => {
                    assert!(self.put_off.contains(object));
                    put_off += 1;
                }
                Standing::UnderWay => {}
            }
        }
        assert_eq!((self.due.len(), self.put_off.len()), (due, put_off));
    }

    /// How many replicas in memory an object is to have: those that it has, but for heat, and those
    /// that it has lost.
    pub(crate) fn wanted_replicas(
        &self,
        stored: &StoredObjects,
        rebuild: &Rebuild,
        object: u32,
    ) -> usize {
        let lost = match self.cause(object) {
            Some(Cause::Loss) => self.replicas(object) as usize,
            _ => 0,
        };
        let missing = usize::from(rebuild.wanted(object));
        stored.kept_replicas(object).max(lost).max(missing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::RETRY_PAUSE_MS;

    fn with(objects: std::ops::Range<u32>) -> Wishes {
        let mut wishes = Wishes::default();
        objects.for_each(|object| assert!(wishes.add(object, Cause::Loss, 2, 0, 100)));
        wishes
    }

    #[test]
    fn what_fails_again_and_again_is_put_off_until_it_is_recalled() {
        let mut wishes = with(3..4);
        let mut now_ms = 0;
        for failed in 0..=REPAIR_RETRIES_MAX {
            assert_eq!((wishes.next(now_ms, 9), wishes.failed(3)), (vec![3], failed));
            wishes.begin(3);
            wishes.check(|_| true);
            assert!(wishes.next(now_ms, 9).is_empty(), "it is under way");
            wishes.note_failure(3, now_ms, Status::TransferFail);
            wishes.check(|_| false);
            assert!(!wishes.are_due(now_ms), "it pauses");
            now_ms += RETRY_PAUSE_MS << failed;
        }
        assert!(!wishes.are_due(u64::MAX));
        wishes.recall();
        assert_eq!((wishes.next(now_ms, 9), wishes.failed(3)), (vec![3], 0));
        wishes.check(|_| false);
    }

    #[test]
    fn all_that_was_put_off_is_recalled_in_steps() {
        let mut wishes = with(0..10);
        (0..10).for_each(|object| wishes.put_off(object));
        wishes.recall();
        let mut seen = Vec::new();
        while wishes.are_due(5) {
            let step = wishes.next(5, 3);
            step.iter().for_each(|object| wishes.put_off(*object));
            seen.extend(step);
            wishes.check(|_| false);
        }
        assert_eq!(seen, (0..10).collect::<Vec<u32>>());
    }

    #[test]
    fn the_most_that_was_wished_for_counts_and_wishes_are_bounded() {
        let add = |wishes: &mut Wishes, object, cause, replicas| {
            wishes.add(object, cause, replicas, 1, 1)
        };
        let mut wishes = with(0..1);
        assert!(add(&mut wishes, 0, Cause::Loss, 3) && add(&mut wishes, 0, Cause::Loss, 2));
        assert_eq!((wishes.replicas(0), add(&mut wishes, 1, Cause::Loss, 2)), (3, false));
        wishes.forget(0);
        wishes.check(|_| true);
        assert_eq!((wishes.len(), wishes.replicas(0)), (0, 0));
        wishes.begin(0);
        wishes.note_failure(0, 1, Status::TransferFail);
        assert!(wishes.next(u64::MAX, 9).is_empty(), "what is forgotten stays so");
    }

    #[test]
    fn heat_is_tried_once_and_gives_way_to_a_loss() {
        let mut wishes = Wishes::default();
        assert!(wishes.add(1, Cause::Heat, 3, 0, 9) && wishes.add(2, Cause::Heat, 3, 0, 9));
        assert!(wishes.add(2, Cause::Loss, 2, 0, 9) && wishes.add(2, Cause::Heat, 5, 0, 9));
        assert_eq!((wishes.cause(2), wishes.replicas(2)), (Some(Cause::Loss), 2));
        for object in [1, 2] {
            wishes.begin(object);
            wishes.note_failure(object, 0, Status::TransferFail);
        }
        wishes.check(|_| false);
        assert_eq!((wishes.cause(1), wishes.len()), (None, 1));
    }
}
