//! Who sent a request.

use std::net::SocketAddr;

/// The other end of the connection: an extension of each request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestOrigin(pub SocketAddr);
