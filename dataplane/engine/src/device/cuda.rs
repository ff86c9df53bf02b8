//! CUDA's driver, resolved at run time: which pointers are device memory, and copies in and out of it.
//! Invariant: nothing is called unless every function was found and the driver could be initialised.

use super::DeviceMemory;
use libloading::Library;
use std::ffi::{c_int, c_uint, c_void};

/// Name of the driver library.
const LIBRARY: &str = "libcuda.so.1";
/// Attributes of a pointer, and the value that means device memory.
const MEMORY_TYPE: c_int = 2;
const DEVICE_ORDINAL: c_int = 9;
const MEMORY_TYPE_DEVICE: c_uint = 2;

type Init = unsafe extern "C" fn(c_uint) -> c_int;
type GetAttribute = unsafe extern "C" fn(*mut c_void, c_int, u64) -> c_int;
type Retain = unsafe extern "C" fn(*mut *mut c_void, c_int) -> c_int;
type SetCurrent = unsafe extern "C" fn(*mut c_void) -> c_int;
type CopyToHost = unsafe extern "C" fn(*mut c_void, u64, usize) -> c_int;
type CopyToDevice = unsafe extern "C" fn(u64, *const c_void, usize) -> c_int;

/// The driver's functions.
pub(super) struct Cuda {
    get_attribute: GetAttribute,
    retain: Retain,
    set_current: SetCurrent,
    copy_to_host: CopyToHost,
    copy_to_device: CopyToDevice,
    _library: Library,
}

impl Cuda {
    /// Finds the driver; `None` without one, or without a device.
    pub(super) fn load() -> Option<Self> {
        // SAFETY: loading the driver runs its initialisers, which every CUDA program does.
        let library = unsafe { Library::new(LIBRARY) }.ok()?;
        // SAFETY: the types are those of the driver's documented interface, whose versioned names never change theirs.
        unsafe {
            let init: Init = *library.get(b"cuInit\0").ok()?;
            let cuda = Self {
                get_attribute: *library.get(b"cuPointerGetAttribute\0").ok()?,
                retain: *library.get(b"cuDevicePrimaryCtxRetain\0").ok()?,
                set_current: *library.get(b"cuCtxSetCurrent\0").ok()?,
                copy_to_host: *library.get(b"cuMemcpyDtoH_v2\0").ok()?,
                copy_to_device: *library.get(b"cuMemcpyHtoD_v2\0").ok()?,
                _library: library,
            };
            (init(0) == 0).then_some(cuda)
        }
    }

    fn attribute<T: Default>(&self, attribute: c_int, address: u64) -> Option<T> {
        let mut value = T::default();
        // SAFETY: both attributes that are asked for are 32-bit numbers, as are the types they are read into.
        let code = unsafe { (self.get_attribute)((&raw mut value).cast(), attribute, address) };
        (code == 0).then_some(value)
    }

    /// Makes the device of an address current on this thread.
    fn enter(&self, address: u64) -> Result<(), String> {
        let ordinal: c_int = self.attribute(DEVICE_ORDINAL, address).unwrap_or(0);
        let mut context = std::ptr::null_mut();
        // SAFETY: `context` receives a handle; the primary context of a device lives as long as it is retained.
        told("cuDevicePrimaryCtxRetain", unsafe {
            (self.retain)(&raw mut context, ordinal)
        })?;
        // SAFETY: the handle was given by the call before.
        told("cuCtxSetCurrent", unsafe { (self.set_current)(context) })
    }
}

impl DeviceMemory for Cuda {
    fn holds(&self, address: u64) -> bool {
        self.attribute(MEMORY_TYPE, address) == Some(MEMORY_TYPE_DEVICE)
    }

    unsafe fn load(&self, device: u64, host: *mut u8, bytes: usize) -> Result<(), String> {
        self.enter(device)?;
        // SAFETY: the caller vouches for `host`; the driver checks the device's range.
        told("cuMemcpyDtoH", unsafe {
            (self.copy_to_host)(host.cast(), device, bytes)
        })
    }

    unsafe fn store(&self, device: u64, host: *const u8, bytes: usize) -> Result<(), String> {
        self.enter(device)?;
        // SAFETY: as in `load`.
        told("cuMemcpyHtoD", unsafe {
            (self.copy_to_device)(device, host.cast(), bytes)
        })
    }
}

fn told(call: &str, code: c_int) -> Result<(), String> {
    if code == 0 {
        Ok(())
    } else {
        Err(format!("{call} failed with CUDA error {code}"))
    }
}
