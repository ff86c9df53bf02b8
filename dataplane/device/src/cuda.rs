//! CUDA's driver, resolved at run time: which pointers are device memory, and copies in and out of
//! it.
//! Invariant: nothing is called unless every function was found and the driver could be
//! initialised, and every call leaves the calling thread in the context in which it came.

use crate::memory::{DeviceMemory, DmaBuf};
use libloading::Library;
use std::collections::BTreeMap;
use std::ffi::{c_int, c_uint, c_ulonglong, c_void};
use std::os::fd::{FromRawFd, OwnedFd};
use std::sync::{Mutex, PoisonError};

/// Name of the driver library.
const LIBRARY: &str = "libcuda.so.1";
/// Attributes of a pointer, and the value that means device memory.
const MEMORY_TYPE: c_int = 2;
const DEVICE_ORDINAL: c_int = 9;
const MEMORY_TYPE_DEVICE: c_uint = 2;
/// The kind of handle that is the descriptor of a dma-buf.
const DMA_BUF_HANDLE: c_int = 1;
/// What exported ranges must be aligned to: pages of the host, or a multiple of them.
const PAGE_BYTES: u64 = 64 << 10;

type Init = unsafe extern "C" fn(c_uint) -> c_int;
type GetAttribute = unsafe extern "C" fn(*mut c_void, c_int, u64) -> c_int;
type Retain = unsafe extern "C" fn(*mut *mut c_void, c_int) -> c_int;
type PushCurrent = unsafe extern "C" fn(*mut c_void) -> c_int;
type PopCurrent = unsafe extern "C" fn(*mut *mut c_void) -> c_int;
type GetHandle = unsafe extern "C" fn(*mut c_void, u64, usize, c_int, c_ulonglong) -> c_int;
type CopyToHost = unsafe extern "C" fn(*mut c_void, u64, usize) -> c_int;
type CopyToDevice = unsafe extern "C" fn(u64, *const c_void, usize) -> c_int;

/// The driver, kept loaded as long as its functions may be called.
pub(crate) struct Cuda {
    functions: Functions,
    /// The primary context of each device that was used, retained once and kept.
    contexts: Mutex<BTreeMap<c_int, CudaContext>>,
    _library: Option<Library>,
}

/// A context's handle.
#[derive(Clone, Copy)]
struct CudaContext(*mut c_void);

// SAFETY: the driver takes the handle of a context from any thread.
unsafe impl Send for CudaContext {}

/// The driver's functions.
#[derive(Clone, Copy)]
struct Functions {
    get_attribute: GetAttribute,
    retain: Retain,
    push_current: PushCurrent,
    pop_current: PopCurrent,
    copy_to_host: CopyToHost,
    copy_to_device: CopyToDevice,
    /// Of drivers since 11.7.
    get_handle: Option<GetHandle>,
}

impl Cuda {
    /// Finds the driver; `None` without one, or without a device.
    pub(crate) fn load() -> Option<Self> {
        // SAFETY: loading the driver runs its initialisers, which every CUDA program does.
        let library = unsafe { Library::new(LIBRARY) }.ok()?;
        // SAFETY: the types are those of the driver's documented interface, whose versioned names
        // never change theirs.
        unsafe {
            let init: Init = *library.get(b"cuInit\0").ok()?;
            let functions = Functions {
                get_attribute: *library.get(b"cuPointerGetAttribute\0").ok()?,
                retain: *library.get(b"cuDevicePrimaryCtxRetain\0").ok()?,
                push_current: *library.get(b"cuCtxPushCurrent_v2\0").ok()?,
                pop_current: *library.get(b"cuCtxPopCurrent_v2\0").ok()?,
                copy_to_host: *library.get(b"cuMemcpyDtoH_v2\0").ok()?,
                copy_to_device: *library.get(b"cuMemcpyHtoD_v2\0").ok()?,
                get_handle: library
                    .get(b"cuMemGetHandleForAddressRange\0")
                    .map(|found| *found)
                    .ok(),
            };
            (init(0) == 0).then_some(Self {
                functions,
                contexts: Mutex::default(),
                _library: Some(library),
            })
        }
    }

    fn attribute<T: Default>(&self, attribute: c_int, address: u64) -> Option<T> {
        let mut value = T::default();
        // SAFETY: both attributes that are asked for are 32-bit numbers, as are the types they are
        // read into.
        let code =
            unsafe { (self.functions.get_attribute)((&raw mut value).cast(), attribute, address) };
        (code == 0).then_some(value)
    }

    /// The primary context of the device that has an address.
    fn context(&self, address: u64) -> Result<CudaContext, String> {
        let ordinal: c_int = self.attribute(DEVICE_ORDINAL, address).unwrap_or(0);
        let mut contexts = self.contexts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = contexts.get(&ordinal) {
            return Ok(*known);
        }
        let mut context = std::ptr::null_mut();
        // SAFETY: `context` receives a handle; the primary context of a device lives as long as it
        // is retained.
        checked("cuDevicePrimaryCtxRetain", unsafe {
            (self.functions.retain)(&raw mut context, ordinal)
        })?;
        contexts.insert(ordinal, CudaContext(context));
        Ok(CudaContext(context))
    }

    /// Calls the driver in the context of the device that has an address. The thread has its own
    /// context back afterwards: it may be a caller's, who works with another device.
    fn within<T>(
        &self,
        address: u64,
        call: impl FnOnce() -> Result<T, String>,
    ) -> Result<T, String> {
        let CudaContext(context) = self.context(address)?;
        // SAFETY: the context is retained for good.
        checked("cuCtxPushCurrent", unsafe { (self.functions.push_current)(context) })?;
        let result = call();
        let mut popped = std::ptr::null_mut();
        // SAFETY: `popped` receives a handle; the context on top is the one that was pushed above.
        checked("cuCtxPopCurrent", unsafe { (self.functions.pop_current)(&raw mut popped) })?;
        result
    }
}

impl DeviceMemory for Cuda {
    fn holds(&self, address: u64) -> bool {
        self.attribute(MEMORY_TYPE, address) == Some(MEMORY_TYPE_DEVICE)
    }

    fn ordinal(&self, address: u64) -> Option<u32> {
        let ordinal: c_int = self.attribute(DEVICE_ORDINAL, address)?;
        u32::try_from(ordinal).ok()
    }

    /// The driver exports whole pages of the host's size.
    fn export(&self, device: u64, bytes: u64) -> Result<DmaBuf, String> {
        let get_handle = self.functions.get_handle;
        let get_handle = get_handle.ok_or("the driver is older than CUDA 11.7")?;
        let first = device - device % PAGE_BYTES;
        let end = device.checked_add(bytes).ok_or("the range wraps around")?;
        let whole = end.next_multiple_of(PAGE_BYTES) - first;
        let mut raw: c_int = -1;
        let handle: *mut c_void = (&raw mut raw).cast();
        self.within(device, || {
            // SAFETY: a handle of this type is a descriptor, an integer, and `raw` is one; the
            // driver checks the range.
            checked("cuMemGetHandleForAddressRange", unsafe {
                get_handle(handle, first, whole as usize, DMA_BUF_HANDLE, 0)
            })
        })?;
        if raw < 0 {
            return Err("the driver gave no descriptor".to_owned());
        }
        Ok(DmaBuf {
            // SAFETY: the descriptor is new, and the driver has given it to us.
            file: unsafe { OwnedFd::from_raw_fd(raw) },
            offset_bytes: device - first,
        })
    }

    unsafe fn load(&self, device: u64, host: *mut u8, bytes: usize) -> Result<(), String> {
        self.within(device, || {
            // SAFETY: the caller vouches for `host`; the driver checks the device's range.
            checked("cuMemcpyDtoH", unsafe {
                (self.functions.copy_to_host)(host.cast(), device, bytes)
            })
        })
    }

    unsafe fn store(&self, device: u64, host: *const u8, bytes: usize) -> Result<(), String> {
        self.within(device, || {
            // SAFETY: as in `load`.
            checked("cuMemcpyHtoD", unsafe {
                (self.functions.copy_to_device)(device, host.cast(), bytes)
            })
        })
    }
}

fn checked(call: &str, code: c_int) -> Result<(), String> {
    if code == 0 { Ok(()) } else { Err(format!("{call} failed with CUDA error {code}")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::{Cell, RefCell};
    use std::os::fd::IntoRawFd;
    use std::sync::atomic::{AtomicU64, Ordering};

    const DEVICE_BASE: u64 = 0x7000_0001_0000;
    /// First byte and length of the last export.
    static EXPORTED: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];

    unsafe extern "C" fn get_attribute(
        value: *mut c_void,
        attribute: c_int,
        address: u64,
    ) -> c_int {
        if address < DEVICE_BASE {
            return 1;
        }
        let number = if attribute == MEMORY_TYPE { MEMORY_TYPE_DEVICE } else { 3 };
        // SAFETY: the caller asks for 32-bit numbers.
        unsafe { value.cast::<c_uint>().write(number) };
        0
    }

    thread_local! {
        /// The calling thread's contexts, its own at the bottom.
        static STACK: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
        static RETAINED: Cell<usize> = const { Cell::new(0) };
    }

    unsafe extern "C" fn retain(context: *mut *mut c_void, ordinal: c_int) -> c_int {
        RETAINED.set(RETAINED.get() + 1);
        // SAFETY: the caller passes a place for a handle.
        unsafe { context.write(ordinal as usize as *mut c_void) };
        0
    }

    unsafe extern "C" fn push_current(context: *mut c_void) -> c_int {
        STACK.with_borrow_mut(|stack| stack.push(context as usize));
        c_int::from(context as usize != 3)
    }

    unsafe extern "C" fn pop_current(context: *mut *mut c_void) -> c_int {
        let popped = STACK.with_borrow_mut(Vec::pop);
        // SAFETY: the caller passes a place for a handle.
        unsafe { context.write(popped.unwrap_or(0) as *mut c_void) };
        c_int::from(popped.is_none())
    }

    unsafe extern "C" fn copy_to_host(host: *mut c_void, _: u64, bytes: usize) -> c_int {
        // SAFETY: the caller vouches for the host's range.
        unsafe { host.cast::<u8>().write_bytes(9, bytes) };
        0
    }

    unsafe extern "C" fn copy_to_device(_: u64, _: *const c_void, _: usize) -> c_int {
        700
    }

    unsafe extern "C" fn get_handle(
        handle: *mut c_void,
        first: u64,
        bytes: usize,
        kind: c_int,
        _: c_ulonglong,
    ) -> c_int {
        if kind != DMA_BUF_HANDLE {
            return 801;
        }
        EXPORTED[0].store(first, Ordering::Relaxed);
        EXPORTED[1].store(bytes as u64, Ordering::Relaxed);
        let file = std::fs::File::open("/dev/null").map_or(-1, IntoRawFd::into_raw_fd);
        // SAFETY: the caller passes a place for a descriptor.
        unsafe { handle.cast::<c_int>().write(file) };
        0
    }

    fn fake(get_handle: Option<GetHandle>) -> Cuda {
        Cuda {
            functions: Functions {
                get_attribute,
                retain,
                push_current,
                pop_current,
                copy_to_host,
                copy_to_device,
                get_handle,
            },
            contexts: Mutex::default(),
            _library: None,
        }
    }

    #[test]
    fn device_pointers_are_recognized_and_copied_in_their_device() {
        let cuda = fake(None);
        assert!(cuda.holds(DEVICE_BASE) && !cuda.holds(DEVICE_BASE - 1));
        assert_eq!(cuda.ordinal(DEVICE_BASE), Some(3));
        assert_eq!(cuda.ordinal(DEVICE_BASE - 1), None);
        let mut host = [0u8; 4];
        // SAFETY: the buffer has this length.
        unsafe {
            cuda.load(DEVICE_BASE, host.as_mut_ptr(), 4).unwrap();
            assert_eq!(host, [9; 4]);
            let refused = cuda.store(DEVICE_BASE, host.as_ptr(), 4).unwrap_err();
            assert!(refused.contains("700"), "{refused}");
        }
    }

    #[test]
    fn a_thread_keeps_its_own_context_and_a_device_is_retained_once() {
        const OWN: usize = 0xca11;
        STACK.set(vec![OWN]);
        let cuda = fake(Some(get_handle));
        let mut host = [0u8; 4];
        for _ in 0..100 {
            // SAFETY: the buffer has this length.
            unsafe {
                cuda.load(DEVICE_BASE, host.as_mut_ptr(), 4).unwrap();
                cuda.store(DEVICE_BASE, host.as_ptr(), 4).unwrap_err();
            }
            cuda.export(DEVICE_BASE, 1).unwrap();
        }
        assert_eq!(STACK.take(), [OWN], "also after a failed copy");
        assert_eq!(RETAINED.get(), 1);
    }

    #[test]
    fn an_export_covers_whole_pages_and_says_where_the_range_begins() {
        let made = fake(Some(get_handle)).export(DEVICE_BASE + 100, PAGE_BYTES).unwrap();
        assert_eq!(made.offset_bytes, 100);
        let exported = EXPORTED.each_ref().map(|cell| cell.load(Ordering::Relaxed));
        assert_eq!(exported, [DEVICE_BASE, 2 * PAGE_BYTES]);
    }

    #[test]
    fn a_driver_that_cannot_export_says_so() {
        let refused = fake(None).export(DEVICE_BASE, 1).unwrap_err();
        assert!(refused.contains("11.7"), "{refused}");
    }
}
