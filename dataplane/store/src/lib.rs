//! The store client: put, get and batches on top of the master and the transports.

pub mod api;
