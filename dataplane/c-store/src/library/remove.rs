//! Objects are removed.

use crate::answer::{INVALID, answer};
use crate::handle::with;
use perigee_c::{Handle, text};
use perigee_store::count_or_code;
use std::ffi::{c_char, c_int};

/// Removes an object.
///
/// # Safety
/// The key ends with 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mooncake_store_remove(
    store: Handle,
    key: *const c_char,
    force: c_int,
) -> c_int {
    answer("mooncake_store_remove", || {
        with(store, |store| {
            // SAFETY: the caller's text ends.
            let key = unsafe { text("key", key) }?;
            let removed = store.remove(&[key], force != 0);
            Ok(removed.first().map_or(INVALID, |status| status.code()))
        })
    })
}

/// Removes the objects in whose key a pattern is found; how many, or a code.
///
/// # Safety
/// The pattern ends with 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mooncake_store_remove_by_regex(
    store: Handle,
    pattern: *const c_char,
    force: c_int,
) -> i64 {
    answer("mooncake_store_remove_by_regex", || {
        with(store, |store| {
            // SAFETY: the caller's text ends.
            let pattern = unsafe { text("pattern", pattern) }?;
            Ok(count_or_code(store.remove_by_regex(pattern, force != 0)))
        })
    })
}

/// Removes all objects; how many, or a code.
#[unsafe(no_mangle)]
pub extern "C" fn mooncake_store_remove_all(store: Handle, force: c_int) -> i64 {
    answer("mooncake_store_remove_all", || {
        with(store, |store| Ok(count_or_code(store.remove_all(force != 0))))
    })
}
