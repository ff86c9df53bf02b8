//! Memory of callers: registered, and as the arrays of a batch.

use crate::answer::{CallFailure, answer};
use crate::handle::with;
use perigee_c::{ArgumentError, Handle, array, text};
use perigee_schemas::Status;
use perigee_store::CallerRange;
use std::ffi::{c_char, c_int, c_void};

/// Makes memory known.
#[unsafe(no_mangle)]
pub extern "C" fn mooncake_store_register_buffer(
    store: Handle,
    buffer: *mut c_void,
    size: usize,
) -> c_int {
    answer("mooncake_store_register_buffer", || {
        with(store, |store| {
            if buffer.is_null() || size == 0 {
                return Err(ArgumentError::Null("buffer").into());
            }
            Ok(store.register_buffer(buffer.addr(), size).code())
        })
    })
}

/// Forgets registered memory.
#[unsafe(no_mangle)]
pub extern "C" fn mooncake_store_unregister_buffer(store: Handle, buffer: *mut c_void) -> c_int {
    answer("mooncake_store_unregister_buffer", || {
        with(store, |store| Ok(store.unregister_buffer(buffer.addr()).code()))
    })
}

/// The keys of a batch.
///
/// # Safety
/// `keys` is null or has `count` entries, each null or a text that ends with 0 and does not change
/// during `'a`.
pub(crate) unsafe fn texts<'a>(
    keys: *const *const c_char,
    count: usize,
) -> Result<Vec<&'a str>, ArgumentError> {
    // SAFETY: the caller's promise.
    let keys = unsafe { array("keys", keys, count) }?;
    // SAFETY: as above.
    keys.iter().map(|key| unsafe { text("keys", *key) }).collect()
}

/// The memory of each object of a batch. One that has no bytes is refused alone.
pub(crate) fn pieces(
    buffers: &[*mut c_void],
    sizes: &[usize],
) -> Result<Vec<Result<[CallerRange; 1], Status>>, CallFailure> {
    let piece = |(buffer, bytes): (&*mut c_void, &usize)| {
        if buffer.is_null() && *bytes > 0 {
            return Err(ArgumentError::Null("buffers").into());
        }
        let piece = CallerRange::possible(buffer.addr() as u64, *bytes as u64);
        Ok(piece.map(|piece| [piece]))
    };
    buffers.iter().zip(sizes).map(piece).collect()
}
