//! How many replicas an object is to have in memory. Owners keep that with their records, so that
//! the next life of the master knows which of them have gone while there was none.
//! Invariant: a replica that was evicted, cleared or moved is not missing.

use crate::wishes::Cause;

use super::KeyShard;

impl KeyShard {
    /// How many replicas in memory an object is to have: those that it has, but for heat, and those
    /// that it has lost.
    pub(super) fn wanted_replicas(&self, object: u32) -> usize {
        let lost = match self.wishes.cause(object) {
            Some(Cause::Loss) => self.wishes.replicas(object) as usize,
            _ => 0,
        };
        let missing = usize::from(self.rebuild.wanted(object));
        self.stored.kept_replicas(object).max(lost).max(missing)
    }

    /// An object was to have so many replicas: their owners hear of it if that has changed.
    pub(super) fn note_wanted(&mut self, object: u32, before: usize) {
        if self.wanted_replicas(object) != before {
            self.note_flags(object);
        }
    }

    /// The objects whose owners have not announced all replicas in time are to have them again;
    /// returns what is left of the budget.
    pub(super) fn miss_unannounced(&mut self, mut budget: usize) -> usize {
        while budget > 0
            && let Some((object, wanted)) = self.rebuild.take_missing(self.stored.clock.now_ms())
        {
            budget -= 1;
            if self.settings.repairs {
                self.wish_for(object, wanted.into());
            }
        }
        budget
    }
}
