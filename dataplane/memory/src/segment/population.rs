//! Making the pages of a segment in the process that owns it, so that its control group is charged
//! and never a writer's. A part is populated before any writer gets access, and a thread does so
//! ahead of that. Invariant: contents never change and what is populated stays so, so it may run
//! beside any reader or writer. No page is made that would leave the control group, or the host,
//! less than a reserve.
//!
//! Pages are touched one by one rather than populated by one call of the kernel's: that call holds
//! the lock of the process's address space, and on a busy machine a thread may lose its core in the
//! middle of it for long. A shard whose heap grows would wait for that lock.

use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use super::budget::{Exhausted, MemoryBudget, Promise};
use super::parts::PartBitmap;
use crate::limits::{
    AHEAD_BYTES, AHEAD_PART, AHEAD_SPARE_BYTES, PART_BYTES, POPULATE_REQUESTS, UNBACKED_RANGES_MAX,
    UNBACKED_STEP_BYTES,
};
use crate::mapping::{Mapping, page_bytes};

/// Which pages the thread makes by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Populate {
    /// None: pages are made on request only.
    OnRequest,
    /// Those that follow what was requested last, and the first ones.
    #[default]
    Ahead,
    /// All of them.
    Whole,
}

/// The pages of one segment; dropping it stops and joins the thread.
#[derive(Debug)]
pub(super) struct Population {
    shared: Arc<PopulationState>,
    /// Parts that the thread is to continue from; closed to end it.
    requested: Option<SyncSender<usize>>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct PopulationState {
    mapping: Arc<Mapping>,
    parts: PartBitmap,
    /// What may still be taken; `None` where pages are reserved already.
    budget: Option<Mutex<MemoryBudget>>,
    promise: Promise,
    stop: AtomicBool,
}

impl Population {
    /// Pages of `mapping`, none of them made yet. Pages of the hugetlb pool are `reserved` since it
    /// was mapped.
    pub(super) fn new(mapping: &Arc<Mapping>, reserved: bool) -> Self {
        let bytes = if reserved { 0 } else { mapping.mapped_bytes() };
        let shared = PopulationState {
            mapping: Arc::clone(mapping),
            parts: PartBitmap::none(mapping.mapped_bytes()),
            budget: (!reserved).then(Mutex::default),
            promise: Promise::of(bytes as u64),
            stop: AtomicBool::new(false),
        };
        Self { shared: Arc::new(shared), requested: None, thread: None }
    }

    /// Starts the thread.
    pub(super) fn start(&mut self, populate: Populate) -> io::Result<()> {
        assert!(self.thread.is_none(), "one thread makes pages ahead");
        if populate == Populate::OnRequest {
            return Ok(());
        }
        let (requested, requests) = sync_channel(POPULATE_REQUESTS);
        let shared = Arc::clone(&self.shared);
        let thread = thread::Builder::new()
            .name("perigee-populate".to_owned())
            .spawn(move || shared.run_ahead(&requests, populate))?;
        let _ = requested.send(0);
        self.requested = Some(requested);
        self.thread = Some(thread);
        Ok(())
    }

    /// Makes the pages of a range that lies within the mapping, and has the thread go on behind it.
    pub(super) fn populate(&self, offset: usize, len: usize) -> Result<(), Exhausted> {
        let parts = &self.shared.parts;
        let mut last = None;
        for part in parts.of(offset, len).filter(|part| !parts.has(*part)) {
            self.shared.populate(part)?;
            last = Some(part);
        }
        if let (Some(last), Some(requested)) = (last, &self.requested) {
            // A thread that is busy is asked again at the next request.
            let _ = requested.try_send(last + 1);
        }
        Ok(())
    }

    pub(super) fn is_populated(&self, offset: usize, len: usize) -> bool {
        self.shared.parts.has_all(offset, len)
    }

    pub(super) fn populated_bytes(&self) -> usize {
        self.shared.parts.bytes()
    }

    /// Bytes that could be populated as things are, with those that are.
    pub(super) fn usable_bytes(&self) -> u64 {
        let total = self.shared.mapping.mapped_bytes() as u64;
        let left = match &self.shared.budget {
            Some(_) => MemoryBudget::headroom_bytes(),
            None => total,
        };
        total.min(left.saturating_add(self.populated_bytes() as u64))
    }

    /// What has no pages, beyond those that there is memory for, in order; of very many ranges the
    /// longest.
    pub(super) fn unbacked(&self) -> Vec<Range<u64>> {
        if self.shared.budget.is_none() {
            return Vec::new();
        }
        let missing_bytes = self.shared.mapping.mapped_bytes() - self.populated_bytes();
        let spare_bytes = MemoryBudget::headroom_bytes();
        if missing_bytes as u64 <= spare_bytes {
            return Vec::new();
        }
        // Some is left for pages that are made ahead, elsewhere than where the next objects go.
        let backed_bytes = spare_bytes.saturating_sub(AHEAD_SPARE_BYTES);
        let backed_bytes = backed_bytes - backed_bytes % UNBACKED_STEP_BYTES;
        self.shared.parts.missing(backed_bytes, UNBACKED_RANGES_MAX)
    }
}

impl Drop for Population {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        self.requested = None;
        if let Some(thread) = self.thread.take() {
            // The thread has nothing that panics; if it did, the segment would still be whole.
            let _ = thread.join();
        }
    }
}

impl PopulationState {
    fn populate(&self, part: usize) -> Result<(), Exhausted> {
        let (start, bytes) = self.parts.range(part);
        debug_assert!(bytes > 0 && start.is_multiple_of(PART_BYTES));
        if let Some(budget) = &self.budget {
            let mut budget = budget.lock().unwrap_or_else(PoisonError::into_inner);
            budget.take(bytes as u64)?;
        }
        touch(&self.mapping, start, bytes);
        if self.parts.add(part) {
            self.promise.keep(bytes as u64);
        }
        Ok(())
    }

    /// Goes on behind each request: for as long as a segment is small a fixed way, then for a part
    /// of what is in use.
    fn run_ahead(&self, requests: &Receiver<usize>, populate: Populate) {
        step_back();
        while let Ok(first) = requests.recv() {
            let ahead = match populate {
                Populate::Whole => self.parts.count(),
                _ => AHEAD_BYTES.max(self.parts.bytes() / AHEAD_PART) / PART_BYTES,
            };
            let end = (first + ahead).min(self.parts.count());
            for part in first..end {
                if self.stop.load(Ordering::Acquire) {
                    return;
                }
                if !self.parts.has(part) && self.populate(part).is_err() {
                    break;
                }
            }
        }
    }
}

/// Gives this thread the lowest priority: pages are made ahead of need, never instead of serving.
fn step_back() {
    // SAFETY: no memory is involved; 0 is the calling thread. Failing leaves the priority as it
    // was.
    let _ = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 19) };
}

/// Writes to each page of `len` bytes at `offset` without changing it: a compare-and-swap of a byte
/// by itself.
fn touch(mapping: &Mapping, offset: usize, len: usize) {
    debug_assert!(offset + len <= mapping.mapped_bytes(), "the range is mapped");
    for at in (offset..offset + len).step_by(page_bytes()) {
        // SAFETY: the caller keeps within the mapping; a byte is always aligned, and all that touch
        // it here are atomic.
        let byte = unsafe { AtomicU8::from_ptr(mapping.base().add(at)) };
        let seen = byte.load(Ordering::Relaxed);
        // Losing the race means that another thread has just written to the page.
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
        // SAFETY: the mapping is this long, and nothing else uses it.
        let bytes = unsafe { std::slice::from_raw_parts_mut(mapping.base(), len) };
        bytes[page_bytes()] = 9;
        touch(&mapping, 0, len);
        assert_eq!(bytes.iter().position(|&byte| byte != 0), Some(page_bytes()));
        assert_eq!(bytes[page_bytes()], 9);
    }
}
