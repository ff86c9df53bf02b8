//! What loads are made of: threads that do one operation after another, and the operations.

pub(crate) mod content;
pub(crate) mod drive;
pub(crate) mod get_worker;
pub(crate) mod latency;
pub(crate) mod removal;
pub(crate) mod requests;
pub(crate) mod window;
pub(crate) mod workload;
