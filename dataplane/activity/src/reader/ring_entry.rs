//! One entry of a ring in a page, as another process may be writing it.
//! Invariant: what is taken was the same in two copies, and its number says that it was whole.

use super::word;
use std::ops::Range;

/// Count and words of an entry whose copies agree, if the count is a fresh one.
pub(super) fn whole_entry<const N: usize>(
    one: &[u8],
    other: &[u8],
    fresh: &Range<u64>,
) -> Option<(u64, [u64; N])> {
    let number = u64::from_ne_bytes(word(one, 0));
    let count = (number / 2).checked_sub(1).filter(|_| number % 2 == 0)?;
    if one != other || !fresh.contains(&count) {
        return None;
    }
    Some((count, std::array::from_fn(|at| u64::from_ne_bytes(word(one, 8 + 8 * at)))))
}
