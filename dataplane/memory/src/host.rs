//! Memory of this process that is not lent: clients' buffers and buffer pools.
//! Invariant: zeroed at first, page-aligned, and returned to the kernel on drop.

use crate::mapping::{Mapping, page_bytes, place};
use crate::meminfo;
use crate::segment::SegmentError;

/// An anonymous mapping with huge pages advised.
///
/// It hands out addresses, not slices: callers lend parts of it to transports and foreign code.
#[derive(Debug)]
pub struct HostBuffer {
    mapping: Mapping,
    bytes: usize,
}

impl HostBuffer {
    /// A zeroed buffer of `bytes`; pages come into being when they are first touched.
    pub fn allocate(bytes: usize) -> Result<HostBuffer, SegmentError> {
        let asked_bytes = bytes as u64;
        let rounded = bytes.checked_next_multiple_of(page_bytes());
        let Some(mapped_bytes) = rounded.filter(|&mapped| mapped > 0) else {
            return Err(SegmentError::Size { asked_bytes });
        };
        let mapping = Mapping::anonymous(mapped_bytes).map_err(|source| SegmentError::Memory {
            asked_bytes,
            available_bytes: meminfo::headroom().map_or(0, |room| room.left_bytes),
            source,
        })?;
        // A kernel without transparent huge pages refuses: ordinary pages serve as well, only
        // slower.
        let _ = mapping.advise_huge_pages();
        assert!((1..=mapping.mapped_bytes()).contains(&bytes));
        Ok(HostBuffer { mapping, bytes })
    }

    /// First byte; page-aligned.
    #[must_use]
    pub fn base(&self) -> *mut u8 {
        self.mapping.base()
    }

    /// Length in bytes, as asked for.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Never true: a buffer has at least one byte.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Address of `len` bytes at `offset`, if they lie within the buffer.
    #[must_use]
    pub fn range(&self, offset: u64, len: u64) -> Option<*mut u8> {
        place(self.bytes, offset, len).map(|offset| self.base().wrapping_add(offset))
    }
}

#[cfg(test)]
mod tests {
    use super::HostBuffer;
    use crate::segment::SegmentError;

    #[test]
    fn a_buffer_is_zeroed_and_writable_to_its_last_byte() {
        let buffer = HostBuffer::allocate(3 * 4096 + 5).unwrap();
        let last = buffer.range(3 * 4096 + 4, 1).unwrap();
        // SAFETY: the range is within the buffer, and nothing else uses it.
        unsafe {
            assert_eq!(last.read(), 0);
            last.write(7);
            assert_eq!(last.read(), 7);
        }
        assert_eq!(buffer.range(3 * 4096 + 4, 2), None);
        assert_eq!(buffer.base().addr() % 4096, 0);
    }

    #[test]
    fn sizes_that_cannot_be_are_refused() {
        assert!(matches!(HostBuffer::allocate(0), Err(SegmentError::Size { asked_bytes: 0 })));
        assert!(matches!(HostBuffer::allocate(usize::MAX), Err(SegmentError::Size { .. })));
        assert!(matches!(HostBuffer::allocate(1 << 60), Err(SegmentError::Memory { .. })));
    }
}
