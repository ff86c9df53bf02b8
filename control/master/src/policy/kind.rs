//! What a shard knows of an object that tells how soon it may be asked for again.
//! Invariant: there are `KINDS` of them, so that one fits into four bits.

/// Number of kinds.
pub(crate) const KINDS: usize = 16;
/// Kinds of new objects by the length of their batch.
const LENGTHS: u8 = 6;
/// The end of a batch.
const LAST: u8 = LENGTHS;
/// The first kind of what goes on from stored keys.
const CONTINUED: u8 = LAST + 1;
/// Read once; the next ones twice, and more often.
const READ: u8 = CONTINUED + LENGTHS;
/// Shorter batches have no end of their own.
const ENDS_FROM_KEYS: usize = 4;

/// The kind of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct ObjectKind(u8);

impl ObjectKind {
    /// Of a group without reads.
    pub(crate) const GROUPED: Self = Self(2);
    /// Of what was read once.
    pub(crate) const READ: Self = Self(READ);

    /// Of a new object at a place of a batch of so many keys, which goes on from stored keys or
    /// does not. What ends a prompt is hardly ever asked for again: the next one that goes on has
    /// another last block.
    pub(crate) fn new(place: usize, keys: usize, continues: bool) -> Self {
        if keys >= ENDS_FROM_KEYS && place + 1 == keys {
            return Self(LAST);
        }
        let length = (keys.max(1).ilog2() as u8).saturating_sub(1).min(LENGTHS - 1);
        Self(if continues { CONTINUED + length } else { length })
    }

    /// Of what comes back after so many reads and an eviction.
    pub(crate) fn returned(reads: u8) -> Self {
        Self((READ + reads).min(KINDS as u8 - 1))
    }

    /// One read later.
    pub(crate) fn read(self) -> Self {
        Self::returned(self.reads())
    }

    /// Reads so far; three stand for more.
    pub(crate) fn reads(self) -> u8 {
        (self.0 + 1).saturating_sub(READ)
    }

    /// It goes on from stored keys.
    pub(crate) fn is_continued(self) -> bool {
        (CONTINUED..READ).contains(&self.0)
    }

    /// It ends its batch.
    pub(crate) fn is_last(self) -> bool {
        self.0 == LAST
    }

    /// Its number.
    pub(crate) fn index(self) -> usize {
        usize::from(self.0)
    }

    /// The kind with a number.
    pub(crate) const fn at(index: usize) -> Self {
        debug_assert!(index < KINDS);
        Self(index as u8)
    }

    /// All of them.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        (0..KINDS).map(Self::at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_a_number_below_the_last() {
        for keys in [0_usize, 1, 3, 4, 7, 64, 1_000_000] {
            for place in [0, keys / 2, keys.saturating_sub(1)] {
                for continues in [false, true] {
                    let kind = ObjectKind::new(place, keys, continues);
                    assert!(kind.index() < usize::from(READ) && kind.reads() == 0);
                    assert!(!kind.is_continued() || continues);
                }
            }
        }
        assert!(ObjectKind::new(7, 8, true).is_last() && !ObjectKind::new(0, 1, true).is_last());
    }

    #[test]
    fn reads_are_counted_up_to_three() {
        let mut kind = ObjectKind::new(0, 1, false);
        for reads in [1, 2, 3, 3] {
            kind = kind.read();
            assert_eq!((kind.reads(), kind), (reads, ObjectKind::returned(reads - 1)));
        }
        assert_eq!(kind.index(), KINDS - 1);
        assert_eq!(ObjectKind::default().read(), ObjectKind::READ);
    }
}
