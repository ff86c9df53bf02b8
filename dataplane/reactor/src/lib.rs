//! Operations on sockets and files that own their buffers until they complete, carried out by
//! io_uring or by epoll.
//!
//! The crate knows the kernel and nothing of executors: [`Reactor::flush`] and [`Reactor::reap`]
//! are called by the driver of a shard. The invariant: memory and descriptor of an operation are
//! owned by its slot until the kernel is done with them, so dropping the future of an operation
//! never frees what the kernel may still write.
#![deny(unsafe_code)]

mod attempt;
mod choice;
mod completion;
mod epoll;
mod file_operation;
mod limits;
mod message;
mod operation;
mod reactor;
mod slot;
mod socket;
mod submitted;
mod turn_budget;
mod uring;
mod vanished;

pub use choice::{Backend, BackendChoice, ChoiceError, choice, note_shard, reactor_name};
pub use completion::Completion;
pub use file_operation::{FileHandle, FileOperation, FileWork};
pub use limits::MEMLOCK_BYTES_MIN;
pub use message::{Guard, Message};
pub use operation::{Finished, Operation, SocketHandle};
pub use reactor::{Reactor, ReactorError, RingRegistration};
pub use socket::{
    Congestion, SocketError, connect_blocking, connect_socket, is_quiet, listen_socket, shutdown,
    suit_accepted,
};
pub use uring::{UringUnavailable, probe};
pub use vanished::has_vanished;
