//! Memory in which bytes wait between a disk and whatever they come from or go to.
//! Invariant: a stage belongs to all that use it, and to the pool when the last one has ended; all
//! stages of a disk together never exceed its bound.
#![expect(unsafe_code, reason = "it hands out aligned memory")]

use crate::limits::{BLOCK_BYTES, STAGE_LOOK};
use perigee_shard::{Environment, Guard, Message};
use std::alloc::{Layout, alloc, dealloc};
use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Memory for the stages of one disk.
#[derive(Debug)]
pub(crate) struct StagePool {
    bytes_max: usize,
    state: Mutex<PoolState>,
}

#[derive(Debug, Default)]
struct PoolState {
    /// Bytes of all memory there is, used or not.
    bytes: usize,
    /// Memory that is not used, by its size.
    idle: BTreeMap<usize, Vec<Memory>>,
}

/// Whole blocks at a multiple of the size of a block.
#[derive(Debug)]
struct Memory {
    first: NonNull<u8>,
    bytes: usize,
}

// SAFETY: it owns its memory.
unsafe impl Send for Memory {}

/// Memory on loan from a pool.
#[derive(Debug)]
pub(crate) struct PooledStage {
    /// Taken only when it goes back.
    memory: Option<Memory>,
    pool: Arc<StagePool>,
}

// SAFETY: shared stages are read, by threads and by the kernel; they are written only through
// `&mut Stage`, or by the kernel for an operation on a file, before whose end they are not read.
unsafe impl Sync for PooledStage {}

impl StagePool {
    pub(crate) fn new(bytes_max: usize) -> Arc<Self> {
        Arc::new(Self { bytes_max, state: Mutex::default() })
    }

    /// A stage of at least so many bytes; `None` while others have all of it.
    pub(crate) fn take(self: &Arc<Self>, bytes: usize) -> Option<PooledStage> {
        let bytes = class(bytes);
        let mut state = self.lock();
        let idle = state.idle.get_mut(&bytes).and_then(Vec::pop);
        let memory = match idle {
            Some(memory) => Some(memory),
            None => state.make(bytes, self.bytes_max),
        };
        let pool = self.clone();
        memory.map(|memory| PooledStage { memory: Some(memory), pool })
    }

    /// A stage as soon as there is one: whatever has the others must give them back soon.
    pub(crate) async fn wait<E: Environment>(
        self: &Arc<Self>,
        environment: &E,
        bytes: usize,
    ) -> PooledStage {
        loop {
            match self.take(bytes) {
                Some(stage) => return stage,
                None => environment.sleep(STAGE_LOOK).await,
            }
        }
    }

    /// Bytes that stages of these sizes take.
    pub(crate) fn bytes_of(sizes: &[usize]) -> usize {
        sizes.iter().map(|bytes| class(*bytes)).sum()
    }

    /// Stages of all these sizes or none at all, so that others can still take `left` bytes.
    pub(crate) fn take_all(
        self: &Arc<Self>,
        sizes: &[usize],
        left: usize,
    ) -> Option<Vec<PooledStage>> {
        let used = {
            let state = self.lock();
            let idle = state.idle.iter().map(|(bytes, idle)| bytes * idle.len());
            state.bytes - idle.sum::<usize>()
        };
        let fits = used + Self::bytes_of(sizes) + left <= self.bytes_max;
        fits.then(|| sizes.iter().map(|bytes| self.take(*bytes)).collect()).flatten()
    }

    fn lock(&self) -> MutexGuard<'_, PoolState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PoolState {
    /// New memory, after as much idle memory has gone as must.
    fn make(&mut self, bytes: usize, bytes_max: usize) -> Option<Memory> {
        while self.bytes + bytes > bytes_max {
            let (_, idle) = self.idle.iter_mut().rev().find(|(_, idle)| !idle.is_empty())?;
            self.bytes -= idle.pop()?.bytes;
        }
        let memory = Memory::new(bytes)?;
        self.bytes += bytes;
        Some(memory)
    }
}

/// The size of memory that is used for so many bytes: one of four to each power of two.
fn class(bytes: usize) -> usize {
    let step = (bytes.next_power_of_two() / 8).max(BLOCK_BYTES as usize);
    bytes.max(1).next_multiple_of(step)
}

impl Memory {
    fn new(bytes: usize) -> Option<Self> {
        let layout = Self::layout(bytes)?;
        // SAFETY: the layout has a size that is not zero.
        let first = NonNull::new(unsafe { alloc(layout) })?;
        // SAFETY: the memory was just made; a stage must never show what was there before.
        unsafe { first.write_bytes(0, bytes) };
        Some(Self { first, bytes })
    }

    fn layout(bytes: usize) -> Option<Layout> {
        Layout::from_size_align(bytes, BLOCK_BYTES as usize).ok().filter(|it| it.size() > 0)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if let Some(layout) = Self::layout(self.bytes) {
            // SAFETY: it was made with this layout and is used no more.
            unsafe { dealloc(self.first.as_ptr(), layout) };
        }
    }
}

impl PooledStage {
    fn first(&self) -> *mut u8 {
        self.memory.as_ref().map_or(std::ptr::null_mut(), |memory| memory.first.as_ptr())
    }

    fn bytes(&self) -> usize {
        self.memory.as_ref().map_or(0, |memory| memory.bytes)
    }

    /// Some of its bytes.
    pub(crate) fn as_slice(&self, start: usize, bytes: usize) -> &[u8] {
        assert!(start + bytes <= self.bytes(), "inside the stage");
        // SAFETY: the range was checked; nothing writes to it any more.
        unsafe { std::slice::from_raw_parts(self.first().wrapping_add(start), bytes) }
    }

    /// The first of its bytes, to be filled.
    pub(crate) fn as_mut_slice(&mut self, bytes: usize) -> &mut [u8] {
        assert!(bytes <= self.bytes(), "inside the stage");
        // SAFETY: the range was checked, and nothing else uses the stage.
        unsafe { std::slice::from_raw_parts_mut(self.first(), bytes) }
    }

    /// A message of some of its bytes, which keeps it.
    pub(crate) fn message(self: &Arc<Self>, start: usize, bytes: usize) -> Message {
        assert!(start + bytes <= self.bytes(), "inside the stage");
        let mut message = Message::new();
        // SAFETY: the range was checked, and the message keeps the stage.
        unsafe { message.push_borrowed(self.first().wrapping_add(start), bytes) };
        message.guard(self.clone() as Guard);
        message
    }
}

impl Drop for PooledStage {
    fn drop(&mut self) {
        if let Some(memory) = self.memory.take() {
            self.pool.lock().idle.entry(memory.bytes).or_default().push(memory);
        }
    }
}

/// Bytes that were read from a disk. They stay as they are for as long as a clone is kept.
#[derive(Clone, Debug)]
pub struct StagedBytes {
    stage: Arc<PooledStage>,
    start: usize,
    bytes: usize,
}

impl StagedBytes {
    pub(crate) fn new(stage: Arc<PooledStage>, start: usize, bytes: usize) -> Self {
        debug_assert!(start + bytes <= stage.bytes(), "inside the stage");
        Self { stage, start, bytes }
    }

    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        self.stage.as_slice(self.start, self.bytes)
    }

    /// Keeps the memory of [`StagedBytes::as_slice`].
    pub fn keep(&self) -> Guard {
        self.stage.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_are_whole_blocks_are_used_again_and_stay_within_the_bound() {
        let pool = StagePool::new(1 << 20);
        let first = pool.take(300 << 10).unwrap();
        assert_eq!(first.first() as usize % BLOCK_BYTES as usize, 0);
        let place = first.first();
        let second = pool.take(600 << 10).unwrap();
        assert!(pool.take(300 << 10).is_none(), "the bound is reached");
        drop(first);
        let again = pool.take(300 << 10).unwrap();
        assert_eq!(again.first(), place, "it was used again");
        drop((second, again));
        let whole = pool.take(1 << 20).unwrap();
        assert!(pool.take(1).is_none(), "idle memory has gone for it");
        drop(whole);
    }

    #[test]
    fn several_stages_are_had_together_or_not_at_all() {
        let pool = StagePool::new(1 << 20);
        let first = pool.take_all(&[300 << 10, 300 << 10], 256 << 10).unwrap();
        assert!(pool.take_all(&[64 << 10, 64 << 10, 64 << 10], 256 << 10).is_none());
        assert!(pool.take(256 << 10).is_some(), "so much is left to others");
        drop(first);
        assert!(pool.take_all(&[64 << 10, 64 << 10, 64 << 10], 256 << 10).is_some());
    }

    #[test]
    fn sizes_waste_a_quarter_at_most() {
        for bytes in [1, 4096, 4097, 70_000, (1 << 20) + 4096, (256 << 20) + 1] {
            let class = class(bytes);
            assert!(class >= bytes && class.is_multiple_of(BLOCK_BYTES as usize));
            assert!(class - bytes <= (bytes / 4).max(4096), "{bytes}: {class}");
        }
    }
}
