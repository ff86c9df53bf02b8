//! What can be asked of a reactor, and what comes back with the completion.
#![expect(unsafe_code, reason = "the kernel fills buffers and makes descriptors")]

use crate::file_operation::FileOperation;
use crate::message::Message;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::rc::Rc;

/// A socket that its operations keep open: what is under way never meets another socket under the
/// same number.
pub type SocketHandle = Rc<OwnedFd>;

/// One request to the kernel, with the memory and the descriptor it needs.
#[derive(Debug)]
pub enum Operation {
    /// Waits for a connection; the result is its descriptor.
    Accept(SocketHandle),
    /// Connects a socket.
    Connect(SocketHandle, Box<SocketAddress>),
    /// Receives some bytes behind the contents of the vector: at most this many, and no more than
    /// its capacity.
    Receive(SocketHandle, Vec<u8>, usize),
    /// Fills the whole message, or fails; the result is the number of bytes of the last step.
    ReceiveMessage(SocketHandle, Box<Message>),
    /// Sends the whole message, or fails.
    SendMessage(SocketHandle, Box<Message>),
    /// Waits until a descriptor is readable. Its owner keeps it open until the operation completes
    /// or is dropped.
    Readable(RawFd),
    /// Something on a file; the result is the number of bytes of the last step.
    File(FileOperation),
}

impl Operation {
    pub(crate) fn descriptor(&self) -> RawFd {
        match self {
            Operation::Accept(fd)
            | Operation::Connect(fd, _)
            | Operation::Receive(fd, _, _)
            | Operation::ReceiveMessage(fd, _)
            | Operation::SendMessage(fd, _) => fd.as_raw_fd(),
            Operation::Readable(fd) => *fd,
            Operation::File(operation) => operation.file.as_raw_fd(),
        }
    }

    /// Takes note that `moved` bytes of it were moved; whether the rest has to be asked for again.
    pub(crate) fn advance(&mut self, moved: usize) -> bool {
        match self {
            Operation::SendMessage(_, message) | Operation::ReceiveMessage(_, message) => {
                message.advance(moved);
                message.bytes() > 0
            }
            Operation::File(operation) => operation.advance(moved),
            _ => false,
        }
    }
}

/// A socket address in the kernel's form.
#[derive(Debug)]
pub struct SocketAddress {
    storage: libc::sockaddr_storage,
    bytes: libc::socklen_t,
}

impl SocketAddress {
    pub(crate) fn new(storage: libc::sockaddr_storage, bytes: libc::socklen_t) -> Self {
        Self { storage, bytes }
    }

    /// Where it lies, valid while `self` is not moved, and its length in bytes.
    pub(crate) fn raw(&self) -> (*const libc::sockaddr, libc::socklen_t) {
        ((&raw const self.storage).cast(), self.bytes)
    }
}

/// A completed operation: the kernel's result and the operation with its memory.
#[derive(Debug)]
pub struct Finished {
    /// Non-negative result, or the error.
    pub result: io::Result<usize>,
    /// What was asked, memory included.
    pub operation: Operation,
}

impl Finished {
    pub(crate) fn new(code: i32, mut operation: Operation) -> Self {
        let result = usize::try_from(code).map_err(|_| io::Error::from_raw_os_error(-code));
        if let (Ok(received), Operation::Receive(_, buffer, _)) = (&result, &mut operation) {
            let filled = buffer.len() + received;
            // SAFETY: the kernel wrote `received` bytes into the spare capacity right behind the
            // contents.
            unsafe { buffer.set_len(filled) };
        }
        Self { result, operation }
    }
    /// Drops an unclaimed result; closes a connection that was accepted too late.
    pub(crate) fn discard(self) {
        if let (Ok(fd), Operation::Accept(_)) = (&self.result, &self.operation) {
            // SAFETY: the kernel just gave us this descriptor; it has no other owner.
            unsafe { libc::close(*fd as i32) };
        }
    }
}
