//! The exported functions, by what they are about. Their contract for callers is the header; each
//! is unsafe because it believes its caller's pointers.

pub(crate) mod lifecycle;
pub(crate) mod memory;
pub(crate) mod notify;
pub(crate) mod report;
pub(crate) mod segment;
pub(crate) mod transfer;
