//! Cutting a batch of keys into calls to the master, whose frames are bounded.
//! Invariant: every item is in exactly one call, in order, and only a call of a single item may be above the bytes.

use crate::limits::{KEY_BYTES_PER_CALL, KEYS_PER_CALL};

/// The items of each call; `key_bytes` tells the length of an item's key.
pub(crate) fn in_calls<T>(
    items: &[T],
    key_bytes: impl Fn(&T) -> usize,
) -> impl Iterator<Item = &[T]> {
    let mut left = items;
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let mut fits = |item: &T| {
            bytes += key_bytes(item);
            bytes <= KEY_BYTES_PER_CALL
        };
        let count = left
            .iter()
            .take(KEYS_PER_CALL)
            .take_while(|item| fits(item));
        let (call, rest) = left.split_at_checked(count.count().max(1))?;
        left = rest;
        Some(call)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_bounded_by_keys_and_by_their_bytes() {
        let lengths = |items: &[usize]| {
            let calls = in_calls(items, |bytes| *bytes);
            calls.map(<[usize]>::len).collect::<Vec<_>>()
        };
        assert_eq!(lengths(&[]), [0; 0]);
        assert_eq!(lengths(&[5; 3]), [3]);
        assert_eq!(lengths(&[5; 20_000]), [8192, 8192, 3616]);
        let half = KEY_BYTES_PER_CALL / 2;
        assert_eq!(lengths(&[half, half, 1, half, half]), [2, 2, 1]);
        assert_eq!(lengths(&[2 * KEY_BYTES_PER_CALL, 1]), [1, 1]);
        assert_eq!(lengths(&[8000; 4194]), [2097, 2097]);
    }
}
