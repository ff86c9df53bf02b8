//! Objects are read.

use crate::answer::{INVALID, answer};
use crate::handle::with;
use crate::library::memory::{pieces, texts};
use perigee_c::{ArgumentError, Handle, array, array_mut, text};
use perigee_store::CallerRange;
use std::ffi::{c_char, c_int, c_void};

/// Reads an object; its bytes, or a code.
///
/// # Safety
/// The key ends with 0. No other code uses the buffer during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mooncake_store_get_into(
    store: Handle,
    key: *const c_char,
    buffer: *mut c_void,
    size: usize,
) -> i64 {
    answer("mooncake_store_get_into", || {
        with(store, |store| {
            // SAFETY: the caller's text ends.
            let key = unsafe { text("key", key) }?;
            if buffer.is_null() && size > 0 {
                return Err(ArgumentError::Null("buffer").into());
            }
            let target = CallerRange::possible(buffer.addr() as u64, size as u64);
            let results = store.get_codes(&[key], &[target.map(|piece| [piece])]);
            Ok(results.first().copied().unwrap_or(i64::from(INVALID)))
        })
    })
}

/// Reads several objects; bytes or a code per key.
///
/// # Safety
/// As `mooncake_store_get_into`; each array has `count` entries.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mooncake_store_batch_get_into(
    store: Handle,
    keys: *const *const c_char,
    buffers: *const *mut c_void,
    sizes: *const usize,
    count: usize,
    results_out: *mut i64,
) -> c_int {
    answer("mooncake_store_batch_get_into", || {
        with(store, |store| {
            // SAFETY: the caller's promise.
            let (keys, objects, results) = unsafe {
                (
                    texts(keys, count)?,
                    pieces(array("buffers", buffers, count)?, array("sizes", sizes, count)?)?,
                    array_mut("results_out", results_out, count)?,
                )
            };
            let read = store.get_codes(&keys, &objects);
            results.iter_mut().zip(read).for_each(|(place, result)| {
                place.write(result);
            });
            Ok(0)
        })
    })
}
