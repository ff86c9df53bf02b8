//! Records of what calls may ask about for a while after it has ended: drain jobs and tasks.
//! Invariant: a record that has not ended is never forgotten; of those that have, the ones that
//! ended first are.

use std::collections::{BTreeMap, VecDeque};

#[derive(Debug)]
pub(super) struct Remembered<T> {
    by_id: BTreeMap<u128, T>,
    /// In the order in which they ended.
    ended: VecDeque<u128>,
}

impl<T> Default for Remembered<T> {
    fn default() -> Self {
        Self { by_id: BTreeMap::new(), ended: VecDeque::new() }
    }
}

impl<T> Remembered<T> {
    /// A record that has not ended.
    pub(super) fn insert(&mut self, id: u128, record: T) {
        let before = self.by_id.insert(id, record);
        debug_assert!(before.is_none(), "an identity names one record");
    }

    pub(super) fn get(&self, id: u128) -> Option<&T> {
        self.by_id.get(&id)
    }

    pub(super) fn get_mut(&mut self, id: u128) -> Option<&mut T> {
        self.by_id.get_mut(&id)
    }

    /// A record has ended; of all that have, so many are remembered.
    pub(super) fn end(&mut self, id: u128, ended_max: usize) {
        debug_assert!(!self.ended.contains(&id) && self.by_id.contains_key(&id), "it ends once");
        self.ended.push_back(id);
        while self.ended.len() > ended_max
            && let Some(oldest) = self.ended.pop_front()
        {
            self.by_id.remove(&oldest);
        }
    }

    /// The records that have not ended, in order of their identities.
    pub(super) fn live(&self, is_ended: impl Fn(&T) -> bool) -> impl Iterator<Item = (u128, &T)> {
        let records = self.by_id.iter().map(|(id, record)| (*id, record));
        records.filter(move |(_, record)| !is_ended(record))
    }

    /// Panics unless exactly the records that have ended are in the order of their ends, and no
    /// more of them than so many.
    pub(super) fn check(&self, ended_max: usize, is_ended: impl Fn(&T) -> bool) {
        assert!(self.ended.len() <= ended_max, "{} ended ones", self.ended.len());
        let known = |id: &u128| self.by_id.get(id).is_some_and(&is_ended);
        assert!(self.ended.iter().all(known), "what ended is remembered as such");
        let live = self.live(&is_ended).count();
        assert_eq!(live + self.ended.len(), self.by_id.len(), "each ended once or not at all");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_that_ended_first_are_forgotten_and_none_that_goes_on() {
        let mut records = Remembered::default();
        for id in 0..5 {
            records.insert(id, false);
        }
        for id in [3, 1, 2] {
            *records.get_mut(id).unwrap() = true;
            records.end(id, 2);
            records.check(2, |ended| *ended);
        }
        assert_eq!(records.get(3), None);
        assert_eq!([0, 1, 2, 4].map(|id| records.get(id).is_some()), [true; 4]);
        assert!(records.live(|ended| *ended).map(|(id, _)| id).eq([0, 4]));
    }

    #[test]
    fn without_memory_a_record_is_forgotten_at_its_end() {
        let mut records = Remembered::default();
        records.insert(1, ());
        records.end(1, 0);
        assert_eq!(records.get(1), None);
    }
}
