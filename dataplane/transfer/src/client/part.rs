//! A part of a batch that one slice carries. Invariant: the parts of a batch cover it once.

use super::trailer::Trailer;
use std::ops::Range;

/// Part of a job that travels with one slice.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    /// Index of the job in its batch.
    pub(crate) job: usize,
    /// Index of the part in its job.
    pub(crate) number: usize,
    /// Payload bytes.
    pub(crate) bytes: u64,
    /// Which of the slice's memory ranges hold the payload.
    pub(crate) memory: Range<usize>,
    /// Which of the slice's pieces belong to it; the first is the payload.
    pub(crate) pieces: Range<usize>,
    /// What else is written with the payload.
    pub(crate) trailer: Trailer,
}
