//! `BufferHandle`: an object's bytes in memory of this process, seen through the buffer protocol.
//! Invariant: the memory lives exactly as long as the handle and every view of it.

use crate::limits::HANDLE_ALIGNMENT_BYTES;
use perigee_store::api::CallerRange;
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use std::alloc::{Layout, alloc, alloc_zeroed, dealloc};
use std::ffi::c_int;
use std::ptr::NonNull;

/// Aligned memory of a fixed length, freed with its owner.
#[derive(Debug)]
pub(crate) struct OwnedBytes {
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: the memory is owned; only raw addresses of it are given out, and what readers and writers
// do with those is ordered by the calls they are passed to.
unsafe impl Send for OwnedBytes {}
// SAFETY: as above; no method reads or writes the memory through a shared reference.
unsafe impl Sync for OwnedBytes {}

impl OwnedBytes {
    /// Memory with undefined content, for a read to fill; None if there is none or `bytes` is 0.
    pub(crate) fn for_read(bytes: u64) -> Option<Self> {
        // SAFETY: `allocate` passes a layout of non-zero size.
        Self::allocate(bytes, |layout| unsafe { alloc(layout) })
    }

    /// Memory filled with zeros; None if there is none or `bytes` is 0.
    pub(crate) fn zeroed(bytes: u64) -> Option<Self> {
        // SAFETY: `allocate` passes a layout of non-zero size.
        Self::allocate(bytes, |layout| unsafe { alloc_zeroed(layout) })
    }

    fn allocate(bytes: u64, take: impl FnOnce(Layout) -> *mut u8) -> Option<Self> {
        let bytes = usize::try_from(bytes).ok().filter(|&bytes| bytes > 0)?;
        let layout = Layout::from_size_align(bytes, HANDLE_ALIGNMENT_BYTES).ok()?;
        let start = NonNull::new(take(layout))?;
        Some(Self { start, layout })
    }

    /// The whole memory as the store takes it.
    pub(crate) fn piece(&self) -> CallerRange {
        CallerRange::owned(self.start.as_ptr() as usize, self.layout.size())
    }
}

impl Drop for OwnedBytes {
    fn drop(&mut self) {
        // SAFETY: `start` came from the allocator with this very layout and is freed once, here.
        unsafe { dealloc(self.start.as_ptr(), self.layout) }
    }
}

/// An object's bytes: `ptr()`, `size()`, `len()` and the buffer protocol (writable, format "B").
///
/// `memoryview(handle)`, slices of it and `torch.frombuffer(handle, ...)` see the memory without a
/// copy and keep it alive. Writing to it changes nothing in the cluster.
#[pyclass(frozen, module = "mooncake.store")]
#[derive(Debug)]
pub(crate) struct BufferHandle {
    bytes: OwnedBytes,
}

impl BufferHandle {
    /// A handle of filled memory.
    pub(crate) fn new(bytes: OwnedBytes) -> Self {
        Self { bytes }
    }
}

#[pymethods]
impl BufferHandle {
    /// Address of the first byte.
    fn ptr(&self) -> usize {
        self.bytes.piece().address
    }

    /// Length in bytes.
    fn size(&self) -> usize {
        self.bytes.piece().bytes
    }

    fn __len__(&self) -> usize {
        self.size()
    }

    /// # Safety
    /// Called by the interpreter only, with a `view` it owns.
    unsafe fn __getbuffer__(
        slf: PyRef<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        if view.is_null() {
            return Err(PyBufferError::new_err("View is null"));
        }
        let CallerRange { address, bytes, .. } = slf.bytes.piece();
        // SAFETY: the view belongs to the interpreter; address and length are one live allocation,
        // which the view keeps alive because PyBuffer_FillInfo takes a reference to the handle.
        let filled = unsafe {
            ffi::PyBuffer_FillInfo(
                view,
                slf.as_ptr(),
                address as *mut _,
                bytes as ffi::Py_ssize_t,
                0,
                flags,
            )
        };
        if filled == 0 { Ok(()) } else { Err(PyErr::fetch(slf.py())) }
    }
}
