//! `libtransfer_engine.so`: the transfer engine behind the functions of `transfer_engine_c.h`,
//! with the names, layouts and codes of Mooncake's library.
//!
//! The invariant: each exported function is declared in `include/transfer_engine_c.h`, and answers
//! whatever it is given.

mod batch;
mod entry;
mod failure;
mod handle;
mod library;
mod limits;
mod links;
mod notify_array;
mod segment_numbers;
mod signals;

pub use entry::{BufferRange, NicLoad, NotifyEntry, RequestEntry, StatusEntry};
pub use library::lifecycle::*;
pub use library::memory::*;
pub use library::notify::*;
pub use library::report::*;
pub use library::segment::*;
pub use library::transfer::*;
