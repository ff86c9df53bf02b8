//! Models of what works without locks: files of production, compiled with the atomics of loom,
//! which plays every order of their steps and every value that the memory model lets a load see.
//!
//! Each model is played with its steps in the wrong order, too: loom has to find fault with that.
#![forbid(unsafe_code)]

#[cfg(test)]
mod mailbox;
#[cfg(test)]
mod revocation;
