//! Keys that were asked for together with stored ones: when they are stored, they go on from those.
//! Invariant: bounded memory; a wrong answer only costs a little order, never correctness.

use crate::index::Slot;
use crate::limits::{CONTINUED_KEYS, CONTINUED_KEYS_MIN};

/// Fingerprints by hash; 0 for none.
#[derive(Debug)]
pub(crate) struct Continued(Box<[u32]>);

impl Continued {
    pub(crate) fn new() -> Self {
        Self(vec![0; CONTINUED_KEYS].into())
    }

    /// Remembers a key.
    fn note(&mut self, hash: u64) {
        *self.slot(hash) = fingerprint(hash);
    }

    /// Whether a key is remembered; forgets it.
    pub(crate) fn take(&mut self, hash: u64) -> bool {
        let slot = self.slot(hash);
        let is_known = *slot == fingerprint(hash);
        if is_known {
            *slot = 0;
        }
        is_known
    }

    fn slot(&mut self, hash: u64) -> &mut u32 {
        let at = (hash >> 32) as usize % self.0.len();
        &mut self.0[at]
    }

    /// Remembers the keys behind those of a batch that were found: what is stored under them soon
    /// goes on from those.
    pub(crate) fn note_missing(&mut self, found: &[Slot], hashes: &[u64]) {
        let is_missing = |slot: &&Slot| **slot == Slot::NONE;
        let missing = found.iter().filter(is_missing).count();
        if missing == 0 || found.len() - missing < CONTINUED_KEYS_MIN {
            return;
        }
        let batch = found.iter().zip(hashes);
        for (_, hash) in batch.filter(|(slot, _)| is_missing(slot)) {
            self.note(*hash);
        }
    }
}

fn fingerprint(hash: u64) -> u32 {
    (hash as u32).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::hash_key;

    #[test]
    fn a_key_is_known_once() {
        let mut continued = Continued::new();
        let (known, other) = (hash_key(b"known"), hash_key(b"other"));
        continued.note(known);
        assert!(!continued.take(other));
        assert!(continued.take(known) && !continued.take(known));
    }
}
