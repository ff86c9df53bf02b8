//! Touching all pages of a segment on a thread of its own while the segment already serves.
//! Invariant: contents are never changed, so it may run beside any reader or writer; it stops within
//! one step of being told to.
//!
//! Pages are touched one by one rather than populated by one call of the kernel's: that call holds the lock of the
//! process's address space, and on a busy machine this thread, the least important of all, may lose its core in the middle
//! of it for long. Whoever needs the lock meanwhile, such as a shard whose heap grows, would wait for it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};

use crate::limits::PREFAULT_STEP_BYTES;
use crate::mapping::{Mapping, page_bytes};

/// How far a prefault is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrefaultProgress {
    /// Bytes whose pages exist for certain.
    pub done_bytes: usize,
    /// Bytes to do in all.
    pub total_bytes: usize,
}

impl PrefaultProgress {
    /// Whether all pages exist.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.done_bytes == self.total_bytes
    }
}

#[derive(Debug, Default)]
struct Shared {
    done_bytes: AtomicUsize,
    stop: AtomicBool,
}

/// A running or finished prefault; dropping it stops and joins the thread.
#[derive(Debug)]
pub(super) struct Prefault {
    shared: Arc<Shared>,
    total_bytes: usize,
    thread: Option<JoinHandle<()>>,
}

impl Prefault {
    /// Starts touching the pages of `mapping`.
    pub(super) fn start(mapping: &Arc<Mapping>) -> io::Result<Prefault> {
        let shared = Arc::new(Shared::default());
        let (theirs, mapping) = (Arc::clone(&shared), Arc::clone(mapping));
        let total_bytes = mapping.mapped_bytes();
        let thread = thread::Builder::new()
            .name("perigee-prefault".to_owned())
            .spawn(move || touch_all(&mapping, &theirs))?;
        Ok(Prefault {
            shared,
            total_bytes,
            thread: Some(thread),
        })
    }

    pub(super) fn progress(&self) -> PrefaultProgress {
        PrefaultProgress {
            done_bytes: self.shared.done_bytes.load(Ordering::Acquire),
            total_bytes: self.total_bytes,
        }
    }

    /// Waits for the thread.
    pub(super) fn join(&mut self) {
        if let Some(thread) = self.thread.take() {
            // The thread has nothing that panics; if it did, the segment would still be whole.
            let _ = thread.join();
        }
    }
}

impl Drop for Prefault {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        self.join();
    }
}

fn touch_all(mapping: &Mapping, shared: &Shared) {
    step_back();
    let total_bytes = mapping.mapped_bytes();
    let mut done_bytes = 0;
    while done_bytes < total_bytes && !shared.stop.load(Ordering::Acquire) {
        let len = PREFAULT_STEP_BYTES.min(total_bytes - done_bytes);
        touch(mapping, done_bytes, len);
        done_bytes += len;
        shared.done_bytes.store(done_bytes, Ordering::Release);
    }
}

/// Gives this thread the lowest priority: pages are made ahead of need, never instead of serving.
fn step_back() {
    // SAFETY: no memory is involved; 0 is the calling thread. Failing leaves the priority as it was.
    let _ = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 19) };
}

/// Writes to each page of `len` bytes at `offset` without changing it: a compare-and-swap of a byte by itself.
fn touch(mapping: &Mapping, offset: usize, len: usize) {
    for at in (offset..offset + len).step_by(page_bytes()) {
        // SAFETY: the caller keeps within the mapping; a byte is always aligned, and all that touch it here
        // are atomic.
        let byte = unsafe { AtomicU8::from_ptr(mapping.base().add(at)) };
        let seen = byte.load(Ordering::Relaxed);
        // Losing the race means that somebody else has just written to the page.
        let _ = byte.compare_exchange(seen, seen, Ordering::Relaxed, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::{Mapping, page_bytes, touch};

    #[test]
    fn touching_keeps_the_contents() {
        let len = 16 * page_bytes();
        let mapping = Mapping::anonymous(len).unwrap();
        // SAFETY: the mapping is this long, and nobody else has it.
        let bytes = unsafe { std::slice::from_raw_parts_mut(mapping.base(), len) };
        bytes[page_bytes()] = 9;
        touch(&mapping, 0, len);
        assert_eq!(bytes.iter().position(|&byte| byte != 0), Some(page_bytes()));
        assert_eq!(bytes[page_bytes()], 9);
    }
}
