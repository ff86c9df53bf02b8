//! What the pump moves, and the messages that ask for it.

/// Name in messages.
pub(super) const NAME: &str = "pump";
/// Bytes of a request: what to do, where, and how many bytes.
pub(super) const REQUEST_BYTES: usize = 24;
/// Bytes in front of an answer.
pub(super) const ANSWER_BYTES: usize = 16;
pub(super) const GET: u64 = 1;
pub(super) const PUT: u64 = 2;

/// What the pump moves.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pump {
    /// From the serving memory to the calling one, or back.
    pub(crate) gets: bool,
    /// Bytes of a block.
    pub(crate) bytes: usize,
    /// Blocks in flight, each on its own connection.
    pub(crate) depth: usize,
    /// CPU of the serving thread; the calling thread is where it is.
    pub(crate) cpu: Option<usize>,
}

/// A block of memory at an address, which the caller keeps alive and to itself.
#[derive(Debug, Clone, Copy)]
pub(super) struct BlockMemory {
    pub(super) base: usize,
    pub(super) bytes: usize,
}
