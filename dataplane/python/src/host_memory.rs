//! Page-aligned memory for callers, and the placement of threads and memory on NUMA nodes.
//! Invariant: an address is freed only if it was given out here, and only once.

use crate::arguments::Count;
use crate::limits::MAX_NUMA_NODE;
use crate::lock::lock;
use crate::warning;
use perigee_memory::host::HostBuffer;
use perigee_memory::segment::SegmentError;
use perigee_schemas::Status;
use pyo3::prelude::*;
use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::sync::{LazyLock, Mutex};
use std::{fs, io, mem, ptr};

const MPOL_PREFERRED: libc::c_long = 1;
const BITS_PER_WORD: usize = usize::BITS as usize;

/// Memory that was given out, by address.
static GIVEN: LazyLock<Mutex<HashMap<usize, HostBuffer>>> = LazyLock::new(Mutex::default);

/// Address of new memory.
fn allocate(bytes: usize) -> Result<usize, SegmentError> {
    let buffer = HostBuffer::allocate(bytes)?;
    let address = buffer.base() as usize;
    lock(&GIVEN).insert(address, buffer);
    Ok(address)
}

/// Frees memory of `allocate`; false for any other address.
fn free(address: usize) -> bool {
    let buffer = lock(&GIVEN).remove(&address);
    buffer.is_some()
}

extern "C" fn torch_allocate(bytes: isize, _device: c_int, _stream: *mut c_void) -> *mut c_void {
    usize::try_from(bytes)
        .ok()
        .and_then(|bytes| allocate(bytes).ok())
        .map_or(ptr::null_mut(), |address| address as *mut c_void)
}

extern "C" fn torch_free(
    address: *mut c_void,
    _bytes: isize,
    _device: c_int,
    _stream: *mut c_void,
) {
    free(address as usize);
}

/// Page-aligned host memory for pools that stores read and write: alloc(bytes) and free(address).
#[pyclass(frozen, name = "MooncakeHostMemAllocator", module = "mooncake.store")]
pub(crate) struct HostMemory;

#[pymethods]
impl HostMemory {
    #[new]
    fn new() -> Self {
        Self
    }

    /// Returns the address of `size` bytes, page-aligned and zero; 0 when there is no memory.
    ///
    /// The memory lives until `free`, whatever becomes of this object.
    fn alloc(&self, py: Python<'_>, size: Count) -> usize {
        match py.detach(|| allocate(size.get())) {
            Ok(address) => address,
            Err(error) => {
                warning::error(py, &format!("Host memory: {error}"));
                0
            }
        }
    }

    /// Free memory of `alloc`. Returns 0, or -600 for an address that was not given out.
    fn free(&self, py: Python<'_>, ptr: Count) -> i32 {
        if py.detach(|| free(ptr.get())) { Status::Ok.code() } else { Status::InvalidParams.code() }
    }
}

/// Run the calling thread on a NUMA node's processors, with memory from there if there is room.
///
/// Threads that are started later inherit it. A node that does not exist is a warning, not an
/// error.
#[pyfunction]
pub(crate) fn bind_to_numa_node(py: Python<'_>, node: i64) {
    let bound = usize::try_from(node)
        .map_err(|_| io::Error::other("node numbers are not negative"))
        .and_then(bind_thread);
    if let Err(error) = bound {
        warning::warn(py, &format!("Could not bind to NUMA node {node}: {error}"));
    }
}

fn bind_thread(node: usize) -> io::Result<()> {
    if node > MAX_NUMA_NODE {
        return Err(io::Error::other(format!("the highest number is {MAX_NUMA_NODE}")));
    }
    let list = fs::read_to_string(format!("/sys/devices/system/node/node{node}/cpulist"))?;
    let set = processor_set(&list).ok_or_else(|| io::Error::other("it has no processors"))?;
    // SAFETY: the set is a plain value that lives across the call; 0 is the calling thread.
    if unsafe { libc::sched_setaffinity(0, mem::size_of_val(&set), &set) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let mut mask = [0_usize; MAX_NUMA_NODE / BITS_PER_WORD + 1];
    mask[node / BITS_PER_WORD] = 1 << (node % BITS_PER_WORD);
    // The kernel reads one bit less than the given count, so one more is passed.
    let bits = mask.len() * BITS_PER_WORD + 1;
    // SAFETY: the mask holds as many bits as the call gets and lives across it.
    let result =
        unsafe { libc::syscall(libc::SYS_set_mempolicy, MPOL_PREFERRED, mask.as_ptr(), bits) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The processors of a list like `0-3,8`; None if it names none.
fn processor_set(list: &str) -> Option<libc::cpu_set_t> {
    // SAFETY: a processor set is an array of integers, for which zero is a value.
    let mut set: libc::cpu_set_t = unsafe { mem::zeroed() };
    let mut count = 0;
    for range in list.trim().split(',').filter(|range| !range.is_empty()) {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last) = (first.parse::<usize>().ok()?, last.parse::<usize>().ok()?);
        for processor in first..=last.min(libc::CPU_SETSIZE as usize - 1) {
            // SAFETY: the number is below the size of the set.
            unsafe { libc::CPU_SET(processor, &mut set) };
            count += 1;
        }
    }
    (count > 0).then_some(set)
}

/// Address of `void *alloc(ssize_t size, int device, void *stream)`, for pluggable allocators.
#[pyfunction]
pub(crate) fn get_alloc_func_addr() -> usize {
    torch_allocate as *const () as usize
}

/// Address of `void free(void *ptr, ssize_t size, int device, void *stream)`, likewise.
#[pyfunction]
pub(crate) fn get_free_func_addr() -> usize {
    torch_free as *const () as usize
}
