//! A log on a disk behind the memory: what memory evicts is appended, and the oldest goes.
//! Invariant: no more blocks than its room; a block is in it once.

use std::collections::{HashSet, VecDeque};

#[derive(Debug, Default)]
pub(super) struct Ssd {
    room: usize,
    log: VecDeque<String>,
    kept: HashSet<String>,
}

impl Ssd {
    pub(super) fn new(room: usize) -> Self {
        Self { room, ..Self::default() }
    }

    pub(super) fn holds(&self, block: &str) -> bool {
        self.kept.contains(block)
    }

    /// Takes a block that memory has evicted; one that it has already is not written again.
    pub(super) fn take(&mut self, block: &str) {
        if self.room == 0 || !self.kept.insert(block.to_owned()) {
            return;
        }
        self.log.push_back(block.to_owned());
        while self.log.len() > self.room {
            if let Some(oldest) = self.log.pop_front() {
                self.kept.remove(&oldest);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_goes_when_there_is_no_room() {
        let mut ssd = Ssd::new(2);
        ["a", "b", "a", "c"].into_iter().for_each(|block| ssd.take(block));
        assert!(!ssd.holds("a") && ssd.holds("b") && ssd.holds("c"));
        let mut none = Ssd::new(0);
        none.take("a");
        assert!(!none.holds("a"));
    }
}
