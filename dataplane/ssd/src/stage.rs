//! Memory in which bytes wait between a disk and whatever they come from or go to.
//! Invariant: a stage belongs to all that use it, and to the pool when the last one has ended; all
//! stages of a disk lie in one piece of memory, whose size bounds them.
#![expect(unsafe_code, reason = "it hands out parts of one piece of memory")]

use crate::cipher::SegmentCipher;
use crate::free_ranges::FreeRanges;
use crate::limits::{BLOCK_BYTES, REGISTERED_BYTES, STAGE_HELD_BYTES_MAX, STAGE_LOOK};
use perigee_memory::HostBuffer;
use perigee_memory::segment::SegmentError;
use perigee_shard::{Environment, Guard, Message};
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Memory for the stages of one disk. Its pages come into being as they are used.
#[derive(Debug)]
pub(crate) struct StagePool {
    memory: Arc<HostBuffer>,
    free: Mutex<FreeRanges>,
    /// Bytes that peers read by themselves.
    held: AtomicUsize,
}

/// Whole blocks on loan from a pool.
#[derive(Debug)]
pub(crate) struct PooledStage {
    pool: Arc<StagePool>,
    start: usize,
    bytes: usize,
}

impl StagePool {
    /// Room for so many bytes, whole blocks.
    pub(crate) fn new(bytes_max: usize) -> Result<Arc<Self>, SegmentError> {
        let memory = Arc::new(HostBuffer::allocate(bytes_max)?);
        let free = Mutex::new(FreeRanges::new(bytes_max));
        Ok(Arc::new(Self { memory, free, held: AtomicUsize::new(0) }))
    }

    /// The memory of all stages.
    pub(crate) fn memory(&self) -> &Arc<HostBuffer> {
        &self.memory
    }

    /// A stage of at least so many bytes; `None` while others have what it takes.
    pub(crate) fn take(self: &Arc<Self>, bytes: usize) -> Option<PooledStage> {
        let bytes = whole_blocks(bytes);
        let start = self.lock().take(bytes)?;
        Some(PooledStage { pool: self.clone(), start, bytes })
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
        sizes.iter().map(|bytes| whole_blocks(*bytes)).sum()
    }

    /// Stages of all these sizes or none at all, so that others can still take `left` bytes.
    pub(crate) fn take_all(
        self: &Arc<Self>,
        sizes: &[usize],
        left: usize,
    ) -> Option<Vec<PooledStage>> {
        let fits = Self::bytes_of(sizes) + left <= self.lock().bytes();
        fits.then(|| sizes.iter().map(|bytes| self.take(*bytes)).collect()).flatten()
    }

    /// A part of all stages' memory, as it is registered with a reactor: the message keeps it.
    pub(crate) fn part(self: &Arc<Self>, number: usize) -> Message {
        let start = number * REGISTERED_BYTES;
        let bytes = REGISTERED_BYTES.min(self.memory.len() - start);
        self.message(start, bytes, self.clone())
    }

    fn message(&self, start: usize, bytes: usize, keep: Guard) -> Message {
        let mut message = Message::new();
        // SAFETY: the range was checked, and the message keeps the memory.
        unsafe { message.push_borrowed(self.place(start, bytes), bytes) };
        message.guard(keep);
        message
    }

    fn place(&self, start: usize, bytes: usize) -> *mut u8 {
        self.memory.range(start as u64, bytes as u64).expect("inside the memory of the stages")
    }

    fn lock(&self) -> MutexGuard<'_, FreeRanges> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn whole_blocks(bytes: usize) -> usize {
    bytes.max(1).next_multiple_of(BLOCK_BYTES as usize)
}

impl PooledStage {
    /// The parts of the memory that it lies in.
    pub(crate) fn parts(&self) -> Range<usize> {
        self.start / REGISTERED_BYTES..(self.start + self.bytes).div_ceil(REGISTERED_BYTES)
    }

    fn place(&self, start: usize, bytes: usize) -> *mut u8 {
        assert!(start + bytes <= self.bytes, "inside the stage");
        self.pool.place(self.start + start, bytes)
    }

    /// Some of its bytes.
    pub(crate) fn as_slice(&self, start: usize, bytes: usize) -> &[u8] {
        // SAFETY: the range was checked, nothing else has it, and nothing writes to it any more:
        // only `&mut PooledStage` does, or the kernel for an operation on a file, before whose end
        // it is not read.
        unsafe { std::slice::from_raw_parts(self.place(start, bytes), bytes) }
    }

    /// The first of its bytes, to be filled.
    pub(crate) fn as_mut_slice(&mut self, bytes: usize) -> &mut [u8] {
        // SAFETY: the range was checked, and nothing else uses the stage.
        unsafe { std::slice::from_raw_parts_mut(self.place(0, bytes), bytes) }
    }

    /// Decrypts blocks that were read into bytes of it from `start` on, of the segment's block
    /// `first` on, to the place `target`, which does not lie behind them. Returns those that do not
    /// verify.
    pub(crate) fn decrypt(
        &self,
        cipher: &SegmentCipher,
        (first, target): (u32, usize),
        (start, bytes): (usize, usize),
    ) -> Vec<u32> {
        let memory = self.place(target, start + bytes - target);
        // SAFETY: the range was checked. The operation that has filled the blocks is over, and so
        // are those for all before them; nothing reads any of it before this has returned.
        let memory = unsafe { std::slice::from_raw_parts_mut(memory, start + bytes - target) };
        cipher.decrypt(first, memory, start - target)
    }

    /// A message of some of its bytes, which keeps it.
    pub(crate) fn message(self: &Arc<Self>, start: usize, bytes: usize) -> Message {
        assert!(start + bytes <= self.bytes, "inside the stage");
        self.pool.message(self.start + start, bytes, self.clone())
    }
}

impl Drop for PooledStage {
    fn drop(&mut self) {
        self.pool.lock().give(self.start, self.bytes);
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
        debug_assert!(start + bytes <= stage.bytes, "inside the stage");
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

/// Stages that stay as they are until a peer has read them by itself.
/// Counted with all that was read into them, so that reads always find memory beside them.
#[derive(Debug)]
pub struct StageHold {
    pool: Arc<StagePool>,
    bytes: usize,
    _stages: Vec<Arc<PooledStage>>,
}

impl StageHold {
    /// Holds what pieces of one disk lie in; `None` while peers hold as much as they may, or if
    /// there are no pieces.
    pub fn of<'a>(pieces: impl Iterator<Item = &'a StagedBytes>) -> Option<Self> {
        let mut stages: Vec<_> = pieces.map(|piece| piece.stage.clone()).collect();
        stages.sort_unstable_by_key(|stage| stage.start);
        stages.dedup_by_key(|stage| stage.start);
        let pool = stages.first()?.pool.clone();
        debug_assert!(stages.iter().all(|stage| Arc::ptr_eq(&stage.pool, &pool)), "of one disk");
        let bytes = stages.iter().map(|stage| stage.bytes).sum();
        let grown = |held: usize| Some(held + bytes).filter(|all| *all <= STAGE_HELD_BYTES_MAX);
        pool.held.fetch_update(Ordering::AcqRel, Ordering::Acquire, grown).ok()?;
        Some(Self { pool, bytes, _stages: stages })
    }
}

impl Drop for StageHold {
    fn drop(&mut self) {
        let held = self.pool.held.fetch_sub(self.bytes, Ordering::AcqRel);
        debug_assert!(held >= self.bytes, "what is held is given back once");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool() -> Arc<StagePool> {
        StagePool::new(1 << 20).unwrap()
    }

    #[test]
    fn stages_are_whole_blocks_are_used_again_and_stay_within_the_bound() {
        let pool = pool();
        let first = pool.take(300 << 10).unwrap();
        let place = first.as_slice(0, 1).as_ptr();
        assert_eq!(place.addr() % BLOCK_BYTES as usize, 0);
        let second = pool.take((600 << 10) + 1).unwrap();
        assert_eq!(second.bytes, (600 << 10) + BLOCK_BYTES as usize);
        assert!(pool.take(300 << 10).is_none(), "the bound is reached");
        drop(first);
        let again = pool.take(300 << 10).unwrap();
        assert_eq!(again.as_slice(0, 1).as_ptr(), place, "it was used again");
        drop((second, again));
        let whole = pool.take(1 << 20).unwrap();
        assert!(pool.take(1).is_none());
        drop(whole);
    }

    #[test]
    fn several_stages_are_had_together_or_not_at_all() {
        let pool = pool();
        let first = pool.take_all(&[300 << 10, 300 << 10], 256 << 10).unwrap();
        assert!(pool.take_all(&[64 << 10, 64 << 10, 64 << 10], 256 << 10).is_none());
        assert!(pool.take(256 << 10).is_some(), "so much is left to others");
        drop(first);
        assert!(pool.take_all(&[64 << 10, 64 << 10, 64 << 10], 256 << 10).is_some());
    }

    #[test]
    fn a_stage_is_what_was_written_to_it_and_keeps_the_memory() {
        let pool = pool();
        let mut stages = [pool.take(4096).unwrap(), pool.take(4096).unwrap()];
        stages[0].as_mut_slice(4096).fill(1);
        stages[1].as_mut_slice(4096).fill(2);
        drop(pool);
        assert_eq!((stages[0].as_slice(4095, 1), stages[1].as_slice(0, 1)), (&[1][..], &[2][..]));
    }

    #[test]
    fn peers_hold_whole_stages_once_each_and_no_more_than_their_part() {
        const PIECE: usize = REGISTERED_BYTES;
        let pool = StagePool::new(2 * STAGE_HELD_BYTES_MAX).unwrap();
        let read = || {
            let stage = Arc::new(pool.take(PIECE).unwrap());
            [0, 64 << 10].map(|start| StagedBytes::new(stage.clone(), start, 4096))
        };
        let held = || pool.held.load(Ordering::Acquire);
        assert!(StageHold::of([].iter()).is_none());
        let mut holds: Vec<_> =
            (0..STAGE_HELD_BYTES_MAX / PIECE).map(|_| StageHold::of(read().iter())).collect();
        assert!(holds.iter().all(Option::is_some));
        assert_eq!(held(), STAGE_HELD_BYTES_MAX);
        assert!(StageHold::of(read().iter()).is_none(), "others need the rest");
        let others = pool.take(STAGE_HELD_BYTES_MAX).unwrap();
        assert!(pool.take(1).is_none(), "what is held is not given away");
        drop((holds.pop(), others));
        assert!(StageHold::of(read().iter()).is_some());
        drop(holds);
        assert_eq!(held(), 0);
        assert!(pool.take(2 * STAGE_HELD_BYTES_MAX).is_some(), "all of it is free");
    }

    #[test]
    fn the_parts_that_are_registered_are_those_that_a_stage_lies_in() {
        let pool = StagePool::new(2 * REGISTERED_BYTES + 4096).unwrap();
        let first = pool.take(8192).unwrap();
        assert_eq!(first.parts(), 0..1);
        let large = pool.take(REGISTERED_BYTES + 4096).unwrap();
        assert_eq!(large.parts(), 1..3);
        let sizes = [0, 1, 2].map(|number| pool.part(number).bytes());
        assert_eq!(sizes, [REGISTERED_BYTES, REGISTERED_BYTES, 4096]);
    }
}
