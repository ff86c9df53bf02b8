//! What ends a segment. Invariant: offsets and lengths are whole blocks.

/// A segment that ends. Footer, sync, trailer, sync, in this order; then
/// [`Log::sealed`](super::Log::sealed).
#[derive(Debug)]
pub struct SegmentEnd {
    /// The file.
    pub slot: u32,
    /// Where the footer goes.
    pub footer_offset: u32,
    /// Whole blocks.
    pub footer: Vec<u8>,
    /// Where the trailer goes.
    pub trailer_offset: u32,
    /// One block.
    pub trailer: Vec<u8>,
}
