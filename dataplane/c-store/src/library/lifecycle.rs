//! Stores begin, join a cluster, and end.

use crate::answer::{CallFailure, answer};
use crate::handle::{NativeStore, STORES, with};
use perigee_c::{Handle, guarded, text, write_text};
use perigee_store::StoreConfig;
use std::ffi::{c_char, c_int};
use std::ptr;
use std::sync::Once;

/// Health of a store that is not set up.
const NOT_OPEN: c_int = 1;

static LEAVING: Once = Once::new();

extern "C" fn end_stores() {
    guarded("exit", (), || STORES.free_all());
}

/// A text, or what stands for null.
///
/// # Safety
/// `pointer` is null or ends with 0.
unsafe fn text_or(
    name: &'static str,
    pointer: *const c_char,
    usual: String,
) -> Result<String, CallFailure> {
    if pointer.is_null() {
        return Ok(usual);
    }
    // SAFETY: the caller's text ends.
    Ok(unsafe { text(name, pointer) }?.to_owned())
}

/// A store that is not set up; null if that fails.
#[unsafe(no_mangle)]
pub extern "C" fn mooncake_store_create() -> Handle {
    guarded("mooncake_store_create", ptr::null_mut(), || {
        let handle = STORES.insert(NativeStore::default());
        LEAVING.call_once(|| STORES.at_exit(end_stores));
        handle
    })
}

/// Leaves the cluster and ends the store.
#[unsafe(no_mangle)]
pub extern "C" fn mooncake_store_destroy(store: Handle) {
    if !store.is_null() {
        answer("mooncake_store_destroy", || Ok(STORES.free(store).map(|()| 0)?));
    }
}

/// Joins a cluster, as the tenant that `MOONCAKE_TENANT_ID` names.
///
/// # Safety
/// Texts are null or end with 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mooncake_store_setup(
    store: Handle,
    local_hostname: *const c_char,
    metadata_server: *const c_char,
    global_segment_size: u64,
    local_buffer_size: u64,
    protocol: *const c_char,
    device_name: *const c_char,
    master_server_addr: *const c_char,
) -> c_int {
    answer("mooncake_store_setup", || {
        let usual = StoreConfig::default();
        let text_or = |name, pointer, usual| {
            // SAFETY: the caller's texts end.
            unsafe { text_or(name, pointer, usual) }
        };
        let config = StoreConfig {
            local_hostname: text_or("local_hostname", local_hostname, usual.local_hostname)?,
            metadata_server: text_or("metadata_server", metadata_server, usual.metadata_server)?,
            global_segment_bytes: global_segment_size,
            local_buffer_bytes: local_buffer_size,
            protocol: text_or("protocol", protocol, usual.protocol)?,
            device_name: text_or("device_name", device_name, usual.device_name)?,
            master_server_address: text_or(
                "master_server_addr",
                master_server_addr,
                usual.master_server_address,
            )?,
            tenant_id: StoreConfig::tenant_of_environment(),
            ..StoreConfig::default()
        };
        STORES.with(store, |store| store.open(config))??;
        Ok(0)
    })
}

/// Joins a cluster with one host's defaults.
///
/// # Safety
/// Texts are null or end with 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mooncake_store_init_all(
    store: Handle,
    protocol: *const c_char,
    device_name: *const c_char,
    mount_segment_size: u64,
) -> c_int {
    answer("mooncake_store_init_all", || {
        let usual = StoreConfig::default();
        // SAFETY: the caller's texts end.
        let (protocol, device) = unsafe {
            (
                text_or("protocol", protocol, usual.protocol)?,
                text_or("device_name", device_name, usual.device_name)?,
            )
        };
        let config = StoreConfig::one_host(&protocol, &device, mount_segment_size);
        STORES.with(store, |store| store.open(config))??;
        Ok(0)
    })
}

/// 0 healthy, 1 not set up, 2 the master does not answer.
#[unsafe(no_mangle)]
pub extern "C" fn mooncake_store_health_check(store: Handle) -> c_int {
    answer("mooncake_store_health_check", || {
        Ok(STORES.with(store, |store| store.store().map_or(NOT_OPEN, |open| open.health()))?)
    })
}

/// Writes the name by which the cluster knows a store.
///
/// # Safety
/// `buf_out` is null or has `buf_len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mooncake_store_get_hostname(
    store: Handle,
    buf_out: *mut c_char,
    buf_len: usize,
) -> c_int {
    answer("mooncake_store_get_hostname", || {
        with(store, |store| {
            // SAFETY: the caller's promise.
            unsafe { write_text("buf_out", buf_out, buf_len, &store.hostname()) }?;
            Ok(0)
        })
    })
}
