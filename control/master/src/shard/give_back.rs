//! Read leases that end before their time, because their readers have finished.
//! Invariant: a lease ends early only when every reader that it was granted to has given it back; a
//! group's, when every reader of every member has.

use crate::given_back::{GivenBack, life_of};

use super::KeyShard;

impl KeyShard {
    /// Takes leases back, each from one reader that will not read under it any more. Bytes that
    /// were replaced or removed since then become free with the last lease. Unknown leases, and
    /// those of an earlier life of the master, are ignored.
    pub fn give_back(&mut self, now_ms: u64, leases: &[GivenBack]) {
        self.begin(now_ms);
        let (index, life) = (self.settings.index, life_of(self.settings.seed));
        let is_own = |lease: &&GivenBack| lease.shard() == Some(index) && lease.life() == life;
        for lease in leases.iter().filter(is_own) {
            if self.stored.has_replica(lease.object(), lease.generation) {
                self.stored.end_read(lease.object(), lease.term());
            } else {
                self.space.give_back(lease.generation, lease.term());
            }
        }
    }
}
