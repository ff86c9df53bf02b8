//! A small HTTP/1 server on a thread of its own, for the master's routes, the metadata service and
//! the client's health page.
//!
//! Invariant: everything a peer can hold on to is bounded: connections, head time, request time,
//! connection life; a stop always ends within [`limits::STOP_GRACE`].
#![forbid(unsafe_code)]

mod answers;
mod connection;
pub mod limits;
mod request_origin;
mod server;

pub use request_origin::RequestOrigin;
pub use server::{HttpHandle, HttpServer, HttpStartError};
