//! What tells one put of a key from any other of it, so that a late message ends or frees only its
//! own put.

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PutName {
    /// The writer.
    pub(crate) client: u128,
    /// Generation of the first replica that the writer was given.
    pub(crate) generation: u64,
}
