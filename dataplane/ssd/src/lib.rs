//! The log of objects on a disk: its format, what is written and when, recovery.
//!
//! All of it decides and none of it does I/O: the log says what to write where, and gets
//! what came of it, so that the tests play every order of completions and every loss of power.
//! The invariant: what is read is what was written under that address and generation, or a miss,
//! and what was removed does not come back.

#![forbid(unsafe_code)]

pub mod format;
pub mod image;
pub mod limits;
pub mod log;
#[cfg(test)]
mod platter;
pub mod recovery;
