//! Memory that peers may use.

use crate::entry::BufferRange;
use crate::failure::{Failure, answer};
use crate::handle::with;
use perigee_c::{Handle, array, text};
use std::ffi::{c_char, c_int, c_void};

const ANYWHERE: &str = "*";

/// The text of a location; null is "find out".
///
/// # Safety
/// `pointer` is null or ends with 0.
unsafe fn place<'a>(pointer: *const c_char) -> Result<&'a str, Failure> {
    if pointer.is_null() {
        return Ok(ANYWHERE);
    }
    // SAFETY: the caller's text ends.
    Ok(unsafe { text("location", pointer) }?)
}

/// Registers memory.
///
/// # Safety
/// The memory stays valid until it is unregistered or the engine is destroyed; `location` is null
/// or ends with 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn registerLocalMemory(
    engine: Handle,
    addr: *mut c_void,
    length: usize,
    location: *const c_char,
    remote_accessible: c_int,
) -> c_int {
    answer("registerLocalMemory", || {
        with(engine, |engine| {
            let (running, address) = (engine.engine_in_use(), addr.addr() as u64);
            // SAFETY: the caller's promise.
            unsafe {
                let location = place(location)?;
                match remote_accessible {
                    0 => running.register_private(address, length as u64, location)?,
                    _ => running.register(address, length as u64, location)?,
                }
            }
            Ok(0)
        })
    })
}

/// Takes memory back.
#[unsafe(no_mangle)]
pub extern "C" fn unregisterLocalMemory(engine: Handle, addr: *mut c_void) -> c_int {
    answer("unregisterLocalMemory", || {
        with(engine, |engine| {
            engine.engine().unregister(addr.addr() as u64)?;
            Ok(0)
        })
    })
}

/// Registers several ranges, all or none.
///
/// # Safety
/// As `registerLocalMemory`, for every range of the array.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn registerLocalMemoryBatch(
    engine: Handle,
    buffer_list: *mut BufferRange,
    buffer_len: usize,
    location: *const c_char,
) -> c_int {
    answer("registerLocalMemoryBatch", || {
        with(engine, |engine| {
            // SAFETY: the caller's promise.
            let buffers = unsafe { array("buffer_list", buffer_list, buffer_len) }?;
            let ranges: Vec<(u64, u64)> =
                buffers.iter().map(|it| (it.addr.addr() as u64, it.length as u64)).collect();
            // SAFETY: as above.
            unsafe { engine.engine_in_use().register_all(&ranges, place(location)?) }?;
            Ok(0)
        })
    })
}

/// Takes several ranges back. All are tried; the first failure is answered.
///
/// # Safety
/// `addr_list` has `addr_len` entries.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unregisterLocalMemoryBatch(
    engine: Handle,
    addr_list: *mut *mut c_void,
    addr_len: usize,
) -> c_int {
    answer("unregisterLocalMemoryBatch", || {
        with(engine, |engine| {
            // SAFETY: the caller's promise.
            let addresses = unsafe { array("addr_list", addr_list, addr_len) }?;
            let addresses: Vec<u64> = addresses.iter().map(|it| it.addr() as u64).collect();
            engine.engine().unregister_all(&addresses)?;
            Ok(0)
        })
    })
}
