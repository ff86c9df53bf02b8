//! The image of an object where it lies in memory, while it is copied to a disk.
//! Invariant: what is copied between two looks at the generation that both find the right one is
//! the object's image; its memory stays mapped until then.
#![expect(unsafe_code, reason = "it copies memory that others may write to")]

use perigee_memory::Segment;
use perigee_schemas::extent::{extent_bytes, generation_offset};
use perigee_shard::Guard;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// An extent in memory, kept mapped.
#[derive(Clone)]
pub struct ImageSource {
    first: *const u8,
    payload_bytes: u32,
    _kept: Guard,
}

// SAFETY: the memory is kept, and is read only, by copies that expect others to write to it.
unsafe impl Send for ImageSource {}

impl std::fmt::Debug for ImageSource {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("ImageSource")
            .field("payload_bytes", &self.payload_bytes)
            .finish_non_exhaustive()
    }
}

impl ImageSource {
    /// The extent of an object at an offset of a segment; `None` if the segment has no such extent
    /// or its pages were never made.
    pub fn of_segment(segment: Arc<Segment>, offset: u64, payload_bytes: u32) -> Option<Self> {
        let bytes = extent_bytes(u64::from(payload_bytes));
        let first = segment.range(offset, bytes)?;
        let is_there = offset.is_multiple_of(8) && segment.is_populated(offset, bytes);
        // SAFETY: the range was checked, is aligned because segments begin at a page border, and is
        // mapped as long as the segment is kept.
        is_there.then(|| unsafe { Self::new(first, payload_bytes, segment) })
    }

    /// An extent in other memory.
    ///
    /// # Safety
    /// `first` must be a multiple of 8 and valid for reads of `extent_bytes(payload_bytes)` bytes
    /// as long as `kept` is kept. Others may write there at any time.
    pub unsafe fn new(first: *const u8, payload_bytes: u32, kept: Guard) -> Self {
        debug_assert!(first.addr().is_multiple_of(8), "the generation is one word");
        Self { first, payload_bytes, _kept: kept }
    }

    /// Whether the extent is that of an object of this generation at this moment.
    pub(crate) fn is_of(&self, generation: u64) -> bool {
        let at = generation_offset(u64::from(self.payload_bytes)) as usize;
        fence(Ordering::SeqCst);
        let word = self.first.wrapping_add(at).cast_mut();
        // SAFETY: the word lies inside the extent, is aligned to 8 and is only read atomically.
        let found = unsafe { AtomicU64::from_ptr(word.cast()) }.load(Ordering::Acquire);
        u64::from_le(found) == generation
    }

    /// Copies bytes of the image from `start` on.
    pub(crate) fn copy(&self, start: usize, target: &mut [u8]) {
        let end = start + target.len();
        assert!(end as u64 <= extent_bytes(u64::from(self.payload_bytes)), "inside the extent");
        let from = self.first.wrapping_add(start);
        // SAFETY: the range lies in the extent; bytes that change under the copy are noticed by
        // the generation.
        unsafe { std::ptr::copy_nonoverlapping(from, target.as_mut_ptr(), target.len()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image;
    use perigee_memory::segment::SegmentOptions;

    #[test]
    fn only_extents_that_are_there_are_sources() {
        let segment = Arc::new(Segment::create(1 << 20, &SegmentOptions::default()).unwrap());
        let image = image::of_payload(&[7; 100], 9);
        assert!(ImageSource::of_segment(segment.clone(), 4096, 100).is_none(), "no pages yet");
        segment.populate(0, 1 << 20).unwrap();
        let place = segment.range(4096, image.len() as u64).unwrap();
        // SAFETY: the range was just checked.
        unsafe { std::ptr::copy_nonoverlapping(image.as_ptr(), place, image.len()) };
        let source = ImageSource::of_segment(segment.clone(), 4096, 100).unwrap();
        assert!(source.is_of(9) && !source.is_of(8));
        let mut copy = vec![0; 20];
        source.copy(90, &mut copy);
        assert_eq!(copy[..10], [7; 10]);
        for offset in [(1 << 20) - 100, 4100, u64::MAX] {
            assert!(ImageSource::of_segment(segment.clone(), offset, 100).is_none(), "{offset}");
        }
    }
}
