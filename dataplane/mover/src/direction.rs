//! Which way bytes go. Invariant: always seen from the side that asks.

use std::fmt::Debug;

/// Which way bytes go, seen from the side that asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From the owner to local memory.
    Read,
    /// From local memory to the owner.
    Write,
}
