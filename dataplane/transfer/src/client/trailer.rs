//! What a part writes beside its payload. Invariant: the bytes lie behind the payload of the whole
//! object.

/// Footer bytes that a part writes behind its payload.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Trailer {
    /// Reads write nothing.
    None,
    /// The whole footer: the part is the whole object.
    Footer {
        /// Payload of the object.
        payload_bytes: u64,
        /// Its generation.
        generation: u64,
    },
    /// Its own block checksums, and the generation if it is the first part.
    Checksums {
        /// The generation, with the first part.
        generation: Option<u64>,
    },
}
