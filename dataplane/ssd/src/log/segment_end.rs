//! What ends a segment. Invariant: offsets are those of blocks of the file, and what is written
//! there are whole blocks of the log.

/// A segment that ends. Footer, sync, trailer, sync, in this order; then
/// [`Log::sealed`](super::Log::sealed).
#[derive(Debug)]
pub struct SegmentEnd {
    /// The segment.
    pub sequence: u32,
    /// The file.
    pub slot: u32,
    /// Where the footer goes.
    pub footer_offset: u32,
    /// Whole blocks of the log.
    pub footer: Vec<u8>,
    /// Where the trailer goes.
    pub trailer_offset: u32,
    /// One block of the log.
    pub trailer: Vec<u8>,
}
