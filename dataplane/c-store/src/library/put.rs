//! Objects are stored.

use crate::answer::{CallFailure, INVALID, answer};
use crate::handle::with;
use crate::library::memory::{pieces, texts};
use crate::placement::{self, Placement};
use perigee_c::{ArgumentError, Handle, array, array_mut, text};
use perigee_schemas::Status;
use perigee_store::api::{CallerRange, WriteForm};
use perigee_store::{ReplicateConfig, Store};
use std::ffi::{c_char, c_int, c_void};

/// Of a call that takes one key.
const ONE: WriteForm = WriteForm { upsert: false, single: true };
/// Of a call that takes several.
const BATCH: WriteForm = WriteForm { upsert: false, single: false };

/// Stores one object; its code.
fn put_one(
    store: &Store,
    key: &str,
    value: *const c_void,
    bytes: usize,
    placement: &ReplicateConfig,
) -> Result<c_int, CallFailure> {
    if value.is_null() && bytes > 0 {
        return Err(ArgumentError::Null("value").into());
    }
    let object = CallerRange::possible(value.addr() as u64, bytes as u64).map(|piece| [piece]);
    let codes = store.write_codes(&[key], &[object], &[None], placement, ONE);
    Ok(codes.first().copied().unwrap_or(INVALID))
}

/// Stores a copy of bytes.
///
/// # Safety
/// Texts end with 0, and `config` is as its header says. The value is not written during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mooncake_store_put(
    store: Handle,
    key: *const c_char,
    value: *const c_void,
    size: usize,
    config: *const Placement,
) -> c_int {
    answer("mooncake_store_put", || {
        with(store, |store| {
            if !store.copies() {
                return Err(Status::InvalidParams.into());
            }
            // SAFETY: the caller's promise.
            let (key, placement) = unsafe { (text("key", key)?, placement::read(config)?) };
            put_one(store, key, value, size, &placement)
        })
    })
}

/// Stores bytes in place.
///
/// # Safety
/// As `mooncake_store_put`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mooncake_store_put_from(
    store: Handle,
    key: *const c_char,
    buffer: *mut c_void,
    size: usize,
    config: *const Placement,
) -> c_int {
    answer("mooncake_store_put_from", || {
        with(store, |store| {
            // SAFETY: the caller's promise.
            let (key, placement) = unsafe { (text("key", key)?, placement::read(config)?) };
            put_one(store, key, buffer, size, &placement)
        })
    })
}

/// Stores several objects; a code per key.
///
/// # Safety
/// As `mooncake_store_put`; each array has `count` entries.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mooncake_store_batch_put_from(
    store: Handle,
    keys: *const *const c_char,
    buffers: *const *mut c_void,
    sizes: *const usize,
    count: usize,
    config: *const Placement,
    results_out: *mut c_int,
) -> c_int {
    answer("mooncake_store_batch_put_from", || {
        with(store, |store| {
            // SAFETY: the caller's promise.
            let (keys, objects, placement, results) = unsafe {
                (
                    texts(keys, count)?,
                    pieces(array("buffers", buffers, count)?, array("sizes", sizes, count)?)?,
                    placement::read(config)?,
                    array_mut("results_out", results_out, count)?,
                )
            };
            let groups = vec![None; count];
            let codes = store.write_codes(&keys, &objects, &groups, &placement, BATCH);
            results.iter_mut().zip(codes).for_each(|(place, code)| {
                place.write(code);
            });
            Ok(0)
        })
    })
}
