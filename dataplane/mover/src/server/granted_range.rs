//! A range of memory that a peer's request may use.
//! Invariant: it exists only with the right to use its memory.
#![expect(unsafe_code, reason = "a range vouches for its memory")]

use perigee_schemas::{Direction, Status};
use perigee_shard::Guard as KeptMemory;

/// A range that was checked, and the right to use it. If its bytes are not where sockets reach
/// them, they are staged.
#[derive(Debug)]
pub struct GrantedRange {
    host: *mut u8,
    bytes: u64,
    kept: KeptMemory,
    memory: usize,
    stage: Option<Box<dyn RangeStage>>,
}

/// Brings the bytes of a range to where sockets reach them, and back.
///
/// # Safety
/// What [`RangeStage::load`] returns must be valid for the kernel's access, in the length of the
/// range, as long as the memory beside it is kept.
pub unsafe trait RangeStage: std::fmt::Debug + 'static {
    /// Before bytes move: their first byte where sockets reach it, and what keeps them there. They
    /// are brought there if they are to be sent.
    ///
    /// # Errors
    /// They cannot be staged.
    fn load(&mut self, direction: Direction) -> Result<(*mut u8, KeptMemory), Status>;

    /// After bytes have arrived: brings them to where they belong.
    ///
    /// # Errors
    /// They cannot be brought there.
    fn store(&self) -> Result<(), Status>;
}

impl GrantedRange {
    /// A range that begins at `host`. `memory` is the number by which its memory can be revoked.
    ///
    /// # Safety
    /// The bytes must be valid for the kernel's access as long as `kept` is, unless a stage stands
    /// for them. Memory that cannot be read or written must be an error there, which only the
    /// kernel's own copies meet.
    pub unsafe fn new(host: *mut u8, bytes: u64, (memory, kept): (usize, KeptMemory)) -> Self {
        Self { host, bytes, kept, memory, stage: None }
    }

    /// The same with a stage for its bytes.
    pub fn with_stage(self, stage: Box<dyn RangeStage>) -> Self {
        Self { stage: Some(stage), ..self }
    }

    /// Length.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// First byte, in place or where it was staged.
    pub(super) fn host(&self) -> *mut u8 {
        self.host
    }

    /// Keeps the memory, and the right to it.
    pub(super) fn keep(&self) -> KeptMemory {
        self.kept.clone()
    }

    /// Number of the memory that it is a range of, by which it can be revoked.
    pub(super) fn memory(&self) -> usize {
        self.memory
    }

    /// Before its bytes move.
    pub(super) fn stage(&mut self, direction: Direction) -> Result<(), Status> {
        if let Some(stage) = &mut self.stage {
            (self.host, self.kept) = stage.load(direction)?;
        }
        Ok(())
    }

    /// After its bytes have arrived.
    pub(super) fn store(&self) -> Result<(), Status> {
        self.stage.as_ref().map_or(Ok(()), |stage| stage.store())
    }
}
