//! The exported functions, by what they are about. Their contract for callers is the header; most
//! are unsafe because they believe their caller's pointers.

pub(crate) mod ask;
pub(crate) mod get;
pub(crate) mod lifecycle;
pub(crate) mod memory;
pub(crate) mod put;
pub(crate) mod remove;
