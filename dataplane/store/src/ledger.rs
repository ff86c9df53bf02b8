//! What lies in the segments of this process: the master tells it as it happens, and the next
//! master hears it.
//!
//! Each segment has a book, and a connection to each shard of the master that carries records. When
//! the master is another one than before, the shards are given first what the book has.
//! Invariant: a book follows one life of the master at a time, and is announced only after the last
//! word of the life before.

mod announcement;
mod book;
mod following;
mod keeper;
mod kept;
mod kept_removals;
mod segment_ledger;
mod shard_place;
mod void_copies;

pub(crate) use keeper::LedgerKeeper;
pub use segment_ledger::{Prepared, SegmentLedger};
pub use void_copies::VoidCopies;
