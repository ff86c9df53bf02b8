//! Questions about objects.

use crate::answer::answer;
use crate::handle::with;
use crate::library::memory::texts;
use perigee_c::{Handle, array_mut, text};
use perigee_schemas::Status;
use perigee_store::count_or_code;
use std::ffi::{c_char, c_int};

/// 1 an object exists, 0 it does not, or a code.
///
/// # Safety
/// The key ends with 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mooncake_store_is_exist(store: Handle, key: *const c_char) -> c_int {
    answer("mooncake_store_is_exist", || {
        with(store, |store| {
            // SAFETY: the caller's text ends.
            Ok(store.exists_code(unsafe { text("key", key) }?))
        })
    })
}

/// 1, 0 or a code per key.
///
/// # Safety
/// Each array has `count` entries; the keys end with 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mooncake_store_batch_is_exist(
    store: Handle,
    keys: *const *const c_char,
    count: usize,
    results_out: *mut c_int,
) -> c_int {
    answer("mooncake_store_batch_is_exist", || {
        with(store, |store| {
            // SAFETY: the caller's promise.
            let (keys, results) =
                unsafe { (texts(keys, count)?, array_mut("results_out", results_out, count)?) };
            let exist = store.exist_codes(&keys);
            results.iter_mut().zip(exist).for_each(|(place, code)| {
                place.write(code);
            });
            Ok(0)
        })
    })
}

/// The bytes of an object, or a code.
///
/// # Safety
/// The key ends with 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mooncake_store_get_size(store: Handle, key: *const c_char) -> i64 {
    answer("mooncake_store_get_size", || {
        with(store, |store| {
            // SAFETY: the caller's text ends.
            let sizes = store.size(&[unsafe { text("key", key) }?]);
            let size = sizes.into_iter().next();
            Ok(count_or_code(size.unwrap_or(Err(Status::InternalError))))
        })
    })
}
