//! Blocks of one file that are read into one stage, and what they have of the log.
//! Invariant: bytes of an encrypted block are handed out only if the block has verified.

use super::change_notify::ChangeNotify;
use super::error::ReadError;
use crate::cipher::SegmentCipher;
use crate::format::BlockRoom;
use crate::limits::{BLOCK_BYTES, READ_BYTES_MAX, READ_GAP_BYTES};
use crate::stage::{PooledStage, StagedBytes};
use perigee_schemas::disk_address::DiskAddress;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

/// Whole blocks of one file that are read into one stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct BlockSpan {
    pub(super) sequence: u32,
    pub(super) slot: u32,
    pub(super) start: u32,
    pub(super) end: u32,
}

impl BlockSpan {
    pub(super) fn bytes(&self) -> u64 {
        u64::from(self.end - self.start)
    }

    /// Whether `other`, which begins no earlier, is read with it.
    fn takes(&self, other: &Self) -> bool {
        let is_near = other.start <= self.end.saturating_add(READ_GAP_BYTES);
        let fits = other.start < self.end || other.end.max(self.end) - self.start <= READ_BYTES_MAX;
        (self.sequence, self.slot) == (other.sequence, other.slot) && is_near && fits
    }
}

/// Spans that overlap or are near become one.
pub(super) fn merge(mut spans: Vec<BlockSpan>) -> Vec<BlockSpan> {
    spans.sort_unstable();
    let mut merged: Vec<BlockSpan> = Vec::with_capacity(spans.len());
    for span in spans {
        match merged.last_mut() {
            Some(last) if last.takes(&span) => last.end = last.end.max(span.end),
            _ => merged.push(span),
        }
    }
    let is_apart = |it: &[BlockSpan]| it[0].sequence != it[1].sequence || it[0].end <= it[1].start;
    debug_assert!(merged.windows(2).all(is_apart), "no block is read twice");
    merged
}

/// A span that is being read.
pub(super) struct SpanReading {
    pub(super) span: BlockSpan,
    pub(super) stage: RefCell<Option<Arc<PooledStage>>>,
    /// What decrypts it; what it has of the log is brought together at the begin of its stage.
    cipher: Option<SegmentCipher>,
    /// Reads of it that were over before earlier ones, by where they begin.
    early: RefCell<BTreeMap<u32, u32>>,
    /// Blocks of the segment that do not verify.
    forged: RefCell<Vec<u32>>,
    pub(super) left: Cell<u32>,
    error: RefCell<Option<ReadError>>,
    /// Notified when it is over: the call that has begun it, and those that have joined.
    listeners: RefCell<Vec<Rc<ChangeNotify>>>,
}

impl SpanReading {
    /// One whose blocks are read as they are, unless something decrypts them.
    pub(super) fn of(
        span: BlockSpan,
        cipher: Option<SegmentCipher>,
        changes: &Rc<ChangeNotify>,
    ) -> Self {
        debug_assert!(span.start < span.end && span.start.is_multiple_of(BLOCK_BYTES));
        Self {
            span,
            stage: RefCell::default(),
            cipher,
            early: RefCell::default(),
            forged: RefCell::default(),
            left: Cell::new(span.end - span.start),
            error: RefCell::default(),
            listeners: RefCell::new(vec![changes.clone()]),
        }
    }

    /// Another call waits for it, too.
    pub(super) fn listen(&self, changes: &Rc<ChangeNotify>) {
        self.listeners.borrow_mut().push(changes.clone());
    }

    /// Something of it is over.
    pub(super) fn notify(&self) {
        self.listeners.borrow().iter().for_each(|changes| changes.notify());
        if self.is_over() {
            self.listeners.take();
        }
    }

    pub(super) fn fail(&self, error: ReadError) {
        *self.error.borrow_mut() = Some(error);
    }

    pub(super) fn has_failed(&self) -> bool {
        self.error.borrow().is_some()
    }

    pub(super) fn has(&self, span: &BlockSpan) -> bool {
        let own = &self.span;
        own.sequence == span.sequence && own.start <= span.start && span.end <= own.end
    }

    pub(super) fn is_over(&self) -> bool {
        self.left.get() == 0 || self.error.borrow().is_some()
    }

    /// Bytes of the log that were read.
    pub(super) fn bytes(&self, address: DiskAddress, bytes: u32) -> Result<StagedBytes, ReadError> {
        let (room, stage) = (self.room(), self.read_stage()?);
        let last = address.offset + bytes.max(1) - 1;
        let blocks = address.offset / room.bytes()..=last / room.bytes();
        if self.forged.borrow().iter().any(|block| blocks.contains(block)) {
            return Err(ReadError::Forged);
        }
        let start = (address.offset - room.in_log(self.span.start)) as usize;
        Ok(StagedBytes::new(stage, start, bytes as usize))
    }

    /// The blocks as they are on the disk, of a span that is not decrypted.
    pub(super) fn blocks(&self) -> Result<StagedBytes, ReadError> {
        debug_assert!(self.cipher.is_none(), "they are not there any more");
        let bytes = (self.span.end - self.span.start) as usize;
        Ok(StagedBytes::new(self.read_stage()?, 0, bytes))
    }

    fn read_stage(&self) -> Result<Arc<PooledStage>, ReadError> {
        if let Some(error) = &*self.error.borrow() {
            return Err(error.clone());
        }
        self.stage.borrow().clone().ok_or(ReadError::Late)
    }

    fn room(&self) -> BlockRoom {
        if self.cipher.is_some() { BlockRoom::BesideTag } else { BlockRoom::Whole }
    }

    /// A read of it is over: decrypts it, and what has waited for it. One that is over before an
    /// earlier one waits, because what it becomes takes some of the earlier one's place. Returns
    /// how many blocks do not verify.
    pub(super) fn take_blocks(&self, start: u32, bytes: u32) -> usize {
        let is_inside = self.span.start <= start && bytes <= self.span.end - start;
        debug_assert!(is_inside, "what was read lies in its span");
        let (Some(cipher), Some(stage)) = (&self.cipher, &*self.stage.borrow()) else {
            self.left.set(self.left.get() - bytes);
            return 0;
        };
        let mut forged = self.forged.borrow_mut();
        let known = forged.len();
        self.early.borrow_mut().insert(start, bytes);
        loop {
            let next = self.span.end - self.left.get();
            let Some(bytes) = self.early.borrow_mut().remove(&next) else {
                return forged.len() - known;
            };
            let from = next - self.span.start;
            let to = (next / BLOCK_BYTES, self.room().in_log(from) as usize);
            forged.extend(stage.decrypt(cipher, to, (from as usize, bytes as usize)));
            self.left.set(self.left.get() - bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(start: u32, end: u32) -> BlockSpan {
        BlockSpan { sequence: 1, slot: 4, start, end }
    }

    #[test]
    fn neighbours_are_read_together_and_large_gaps_are_not_read() {
        let block = BLOCK_BYTES;
        let far = 100 * block;
        let spans = vec![span(far, far + block), span(0, block), span(4 * block, 5 * block)];
        assert_eq!(merge(spans), [span(0, 5 * block), span(far, far + block)]);
    }

    #[test]
    fn what_overlaps_is_read_once_and_neighbours_up_to_a_bound() {
        let whole = READ_BYTES_MAX;
        let spans = vec![span(0, 2 * whole), span(4096, 8192), span(2 * whole, 3 * whole)];
        assert_eq!(merge(spans), [span(0, 2 * whole), span(2 * whole, 3 * whole)]);
        let other = BlockSpan { sequence: 2, slot: 5, start: 8192, end: 12288 };
        assert_eq!(merge(vec![span(4096, 8192), other]).len(), 2, "of another segment");
    }
}
