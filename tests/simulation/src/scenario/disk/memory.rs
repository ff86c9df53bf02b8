//! Images in memory, from which a disk copies. Invariant: the generation says whose bytes they are.
#![expect(unsafe_code, reason = "a disk copies memory that its owner changes")]

use perigee_schemas::extent::generation_offset;
use perigee_ssd::{ImageSource, image};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The extent of one object.
pub(super) struct Extent {
    words: Vec<AtomicU64>,
    payload_bytes: u32,
}

impl Extent {
    pub(super) fn new(generation: u64, payload_bytes: u32) -> Arc<Self> {
        let image = image::of_payload(&payload(generation, payload_bytes), generation);
        let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap_or_default());
        let words = image.chunks(8).map(|bytes| AtomicU64::new(word(bytes))).collect();
        Arc::new(Self { words, payload_bytes })
    }

    pub(super) fn source(self: &Arc<Self>) -> ImageSource {
        // SAFETY: the words are the whole extent, aligned to 8, and are kept.
        unsafe {
            ImageSource::new(self.words.as_ptr().cast(), self.payload_bytes, self.clone() as _)
        }
    }

    /// Another object gets the place.
    pub(super) fn give_away(&self) {
        let at = generation_offset(u64::from(self.payload_bytes)) / 8;
        self.words[at as usize].store(u64::MAX, Ordering::Release);
        self.words[0].store(u64::MAX, Ordering::Release);
    }
}

/// The payload that a generation has.
pub(super) fn payload(generation: u64, bytes: u32) -> Vec<u8> {
    let word = generation.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes();
    (0..bytes as usize).map(|at| word[at % 8] ^ (at / 8) as u8 ^ (at / 2048) as u8).collect()
}
