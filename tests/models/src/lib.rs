//! Models of what threads and processes do to each other: files of production, compiled with the
//! types of loom, which plays every order of their steps and every value that the memory model lets
//! a load see.
//!
//! Each model is played with its steps in the wrong order, too: loom has to find fault with that.
#![forbid(unsafe_code)]

#[cfg(test)]
mod event_queue;
#[cfg(test)]
mod mailbox;
#[cfg(test)]
mod revocation;
