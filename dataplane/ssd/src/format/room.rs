//! How much of a log each block of its disk has room for. Offsets of a log count that room, offsets
//! of a file count blocks. Invariant: both name the same block, and no two parts of a log that are
//! written apart share one.

use crate::limits::BLOCK_BYTES;

/// Bytes of the tag that ends an encrypted block.
pub(crate) const TAG_BYTES: u32 = 16;

/// What a block of the disk has of the log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum BlockRoom {
    /// All of the block.
    #[default]
    Whole,
    /// The block is encrypted, and its tag takes some of it.
    BesideTag,
}

impl BlockRoom {
    /// Bytes of the log in a block.
    pub const fn bytes(self) -> u32 {
        match self {
            Self::Whole => BLOCK_BYTES,
            Self::BesideTag => BLOCK_BYTES - TAG_BYTES,
        }
    }

    /// So many bytes of a log, rounded up to blocks.
    pub(crate) const fn whole(self, bytes: usize) -> usize {
        bytes.next_multiple_of(self.bytes() as usize)
    }

    /// What blocks of the log take on the disk: an offset, or a length.
    pub const fn on_disk(self, log_bytes: u32) -> u32 {
        log_bytes / self.bytes() * BLOCK_BYTES
    }

    /// What blocks of the disk have of the log: an offset, or a length.
    pub const fn in_log(self, disk_bytes: u32) -> u32 {
        disk_bytes / BLOCK_BYTES * self.bytes()
    }

    /// Where in the log the first batch of a segment begins. Without its header nothing of an
    /// encrypted segment can be read, so there it lies twice.
    pub(crate) const fn first_batch(self) -> u32 {
        match self {
            Self::Whole => self.bytes(),
            Self::BesideTag => 2 * self.bytes(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_a_log_are_blocks_of_its_disk() {
        for room in [BlockRoom::Whole, BlockRoom::BesideTag] {
            for block in [0, 1, 17, 65_535] {
                let in_log = block * room.bytes();
                assert_eq!(room.on_disk(in_log), block * BLOCK_BYTES);
                assert_eq!(room.on_disk(in_log + room.bytes() - 1), block * BLOCK_BYTES);
                assert_eq!(room.in_log(block * BLOCK_BYTES), in_log);
            }
        }
        assert_eq!(BlockRoom::BesideTag.whole(4081), 8160);
    }
}
