//! One io_uring per shard: operations that own their buffers until completion.
//!
//! The crate knows the kernel's ring and nothing of executors: [`Ring::flush`] and [`Ring::reap`] are called by whoever
//! drives the shard. The invariant: memory handed to the kernel is owned by the slot of its operation, so dropping the
//! future of an operation never frees what the kernel may still write.

mod completion;
mod limits;
mod message;
mod operation;
mod ring;
mod slot;
mod socket;

pub use completion::Completion;
pub use limits::RING_ENTRIES;
pub use message::{Guard, Message};
pub use operation::{Finished, Operation};
pub use ring::{Ring, RingError};
pub use socket::{
    Congestion, SocketError, connect_blocking, connect_socket, listen_socket, shutdown,
};
