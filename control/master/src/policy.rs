//! What to keep when a segment is full: what an object of a kind is worth at its age, and whether a
//! key that comes back was worth keeping.
//! Invariant: a policy changes the order of eviction alone. No answer of it touches what is leased,
//! pinned or unfinished.

mod adaptive;
mod ages;
mod curves;
mod eviction_policy;
mod ghosts;
mod guard;
mod kind;
mod lru;
mod sample;

use adaptive::Adaptive;
use lru::Lru;

pub(crate) use eviction_policy::{EvictionPolicy, KeyAccess};
pub(crate) use kind::{KINDS, ObjectKind};

/// Which policy a shard follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PolicyName {
    /// The least recently used goes first.
    Lru,
    /// What objects of a kind are worth at their age is learned; where that hits less than `Lru`,
    /// that one is followed.
    #[default]
    Adaptive,
}

impl PolicyName {
    /// All policies with their words.
    pub const ALL: [(&'static str, Self); 2] = [("lru", Self::Lru), ("adaptive", Self::Adaptive)];

    /// The policy that this word names.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|(name, _)| *name == word).map(|(_, policy)| policy)
    }

    pub(crate) fn build(self) -> Box<dyn EvictionPolicy> {
        match self {
            Self::Lru => Box::new(Lru),
            Self::Adaptive => Box::new(Adaptive::new()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_policy_has_a_word() {
        for (word, policy) in PolicyName::ALL {
            assert_eq!(PolicyName::from_word(word), Some(policy));
        }
        assert_eq!(PolicyName::from_word("belady"), None);
    }
}
