//! What lies on a disk: five sealed structures and the entries in them.
//! Invariant: decoders take any bytes; what they accept was sealed by an encoder of this module.

mod entry;
mod fields;
mod footer;
mod room;
mod seal;
mod segment_header;
mod summary;
mod superblock;
mod trailer;

pub use entry::{Entry, EntryKind, Labels};
pub use footer::Footer;
pub use room::BlockRoom;
pub use seal::{FormatError, SEAL_BYTES, Structure, seal};
pub use segment_header::SegmentHeader;
pub use summary::{Summary, summary_bytes};
pub use superblock::{SUPERBLOCK_FILE_BYTES, Superblock, SuperblockError};
pub use trailer::SegmentTrailer;

pub(crate) use footer::footer_bytes;
pub(crate) use room::TAG_BYTES;
pub(crate) use seal::claimed_bytes;
pub(crate) use summary::SUMMARY_COPIES;
