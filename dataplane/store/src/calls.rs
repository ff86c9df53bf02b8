//! Cutting a batch of keys into calls to the master, whose frames are bounded. Keys that no object
//! can have are not sent at all.
//! Invariant: every item is in exactly one call, in order, and only a call of a single item may be
//! above the bytes.

use crate::limits::{KEY_BYTES_PER_CALL, KEYS_PER_CALL};
use perigee_schemas::Status;
use perigee_schemas::limits::KEY_BYTES_MAX;
use perigee_schemas::tenant::is_free;

/// Whether a key may be sent: no object has a longer one, and none begins with what stands before a
/// tenant.
///
/// # Errors
/// The key is over the limit, or reserved.
pub(crate) fn check_key(key: &str) -> Result<(), Status> {
    if !is_free(key.as_bytes()) {
        return Err(Status::InvalidParams);
    }
    match key.len() {
        ..=KEY_BYTES_MAX => Ok(()),
        _ => Err(Status::InvalidKey),
    }
}

/// Asks about the keys that may be sent; the others have their verdict at once. One answer per key,
/// in order.
pub(crate) fn ask_sendable<'a, T>(
    keys: &[&'a str],
    ask: impl FnOnce(&[&'a str]) -> Vec<T>,
    refused: impl Fn(Status) -> T,
) -> Vec<T> {
    let is_sendable = |key: &&&str| check_key(key).is_ok();
    if keys.iter().all(|key| is_sendable(&key)) {
        let answers = ask(keys);
        debug_assert_eq!(answers.len(), keys.len(), "one answer per key");
        return answers;
    }
    let sendable: Vec<&str> = keys.iter().filter(is_sendable).copied().collect();
    let answers = ask(&sendable);
    debug_assert_eq!(answers.len(), sendable.len(), "one answer per key");
    let mut answers = answers.into_iter();
    let answer = |key: &&str| match check_key(key) {
        Ok(()) => answers.next().unwrap_or_else(|| refused(Status::InternalError)),
        Err(status) => refused(status),
    };
    let all = keys.iter().map(answer).collect();
    debug_assert_eq!(answers.len(), 0, "each answer has gone to its key");
    all
}

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
        let count = left.iter().take(KEYS_PER_CALL).take_while(|item| fits(item));
        let (call, rest) = left.split_at_checked(count.count().max(1))?;
        debug_assert!((1..=KEYS_PER_CALL).contains(&call.len()), "calls are bounded");
        let sent: usize = call.iter().map(&key_bytes).sum();
        debug_assert!(call.len() == 1 || sent <= KEY_BYTES_PER_CALL, "one large item goes alone");
        left = rest;
        Some(call)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_over_the_limit_are_refused_and_the_others_asked_about() {
        let (longest, over) = ("k".repeat(KEY_BYTES_MAX), "k".repeat(KEY_BYTES_MAX + 1));
        let ask = |keys: &[&str]| keys.iter().map(|key| Ok(key.len())).collect::<Vec<_>>();
        let answers = ask_sendable(&["a", &over, &longest, "\u{1}red\u{1}a"], ask, Err);
        let (long, reserved) = (Err(Status::InvalidKey), Err(Status::InvalidParams));
        assert_eq!(answers, [Ok(1), long, Ok(KEY_BYTES_MAX), reserved]);
    }

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
