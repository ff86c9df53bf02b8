//! What both C libraries share: handles, arguments from C, guarded calls, log lines, the end of the
//! process.
//!
//! The invariant: no panic crosses into C, and a handle that is unknown, freed or of another
//! library is an error instead of memory.

mod argument;
mod guard;
mod handles;
mod log;

pub use argument::{ArgumentError, TEXT_BYTES_MAX, array, array_mut, slot, text, write_text};
pub use guard::guarded;
pub use handles::{Handle, Handles};
