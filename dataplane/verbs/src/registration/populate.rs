//! Faults pages in with many threads, so that pinning finds them there.
//! Invariant: contents never change, and a failure is no error: registration then faults them
//! itself, or names the reason.

use std::sync::atomic::{AtomicU64, Ordering};

use nix::unistd::{SysconfVar, sysconf};

use crate::limits::{POPULATE_STEP_BYTES, POPULATE_THREADS_MAX};

/// Size of the host's ordinary pages.
pub(super) fn page_bytes() -> u64 {
    const COMMON: u64 = 4096;
    sysconf(SysconfVar::PAGE_SIZE)
        .ok()
        .flatten()
        .and_then(|bytes| u64::try_from(bytes).ok())
        .unwrap_or(COMMON)
}

/// Faults in the pages of `bytes` at `address`, for writing if `writable`. Returns the bytes that
/// the kernel confirmed.
pub fn populate(address: u64, bytes: u64, writable: bool) -> u64 {
    let page_bytes = page_bytes();
    let from = address - address % page_bytes;
    let Some(end) =
        address.checked_add(bytes).and_then(|end| end.checked_next_multiple_of(page_bytes))
    else {
        return 0;
    };
    let steps = (end - from).div_ceil(POPULATE_STEP_BYTES);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = cores.min(POPULATE_THREADS_MAX).min(steps as usize);
    let (next, done) = (AtomicU64::new(0), AtomicU64::new(0));
    let work = || {
        loop {
            let step = next.fetch_add(1, Ordering::Relaxed);
            if step >= steps {
                return;
            }
            let start = from + step * POPULATE_STEP_BYTES;
            let length = POPULATE_STEP_BYTES.min(end - start);
            if advise(start, length, writable) {
                done.fetch_add(length, Ordering::Relaxed);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads {
            // One thread fewer is only slower; this one does what is left.
            let _ =
                std::thread::Builder::new().name("populate".to_owned()).spawn_scoped(scope, work);
        }
        work();
    });
    done.into_inner().min(bytes)
}

fn advise(address: u64, bytes: u64, writable: bool) -> bool {
    let advice = if writable { libc::MADV_POPULATE_WRITE } else { libc::MADV_POPULATE_READ };
    // SAFETY: populating changes no contents, and the kernel checks the range: unmapped or
    // protected pages make it return an error.
    unsafe { libc::madvise(address as *mut libc::c_void, bytes as usize, advice) == 0 }
}

#[cfg(test)]
mod tests {
    use perigee_memory::HostBuffer;

    use super::*;

    #[test]
    fn memory_is_populated_and_keeps_its_contents() {
        let buffer = HostBuffer::allocate(3 * POPULATE_STEP_BYTES as usize / 2).unwrap();
        let address = buffer.base() as u64;
        // SAFETY: the byte lies in the buffer, which nothing else uses.
        unsafe { *(address as *mut u8) = 7 };
        let bytes = buffer.len() as u64;
        assert_eq!(populate(address, bytes, true), bytes);
        // SAFETY: as above.
        assert_eq!(unsafe { *(address as *const u8) }, 7);
    }

    #[test]
    fn what_is_not_mapped_is_not_populated() {
        assert_eq!(populate(page_bytes(), page_bytes(), true), 0);
        assert_eq!(populate(u64::MAX - 10, 100, true), 0);
    }
}
