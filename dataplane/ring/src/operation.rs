//! What can be asked of the ring, and what comes back with the completion.

use crate::message::Message;
use io_uring::{opcode, squeue, types};
use std::io;
use std::os::fd::RawFd;

/// One request to the kernel, with the memory it needs.
#[derive(Debug)]
pub enum Operation {
    /// Waits for a connection; the result is its descriptor.
    Accept(RawFd),
    /// Connects a non-blocking socket.
    Connect(RawFd, Box<Address>),
    /// Receives some bytes behind the contents of the vector: at most this many, and no more than its capacity.
    Receive(RawFd, Vec<u8>, usize),
    /// Fills the whole message, or fails; the result is the number of bytes of the last step.
    ReceiveMessage(RawFd, Box<Message>),
    /// Sends the whole message, or fails.
    SendMessage(RawFd, Box<Message>),
    /// Waits until a descriptor is readable.
    Readable(RawFd),
}

/// A socket address in the kernel's form.
#[derive(Debug)]
pub struct Address {
    storage: libc::sockaddr_storage,
    bytes: libc::socklen_t,
}

impl Address {
    pub(crate) fn new(storage: libc::sockaddr_storage, bytes: libc::socklen_t) -> Self {
        Self { storage, bytes }
    }
}

impl Operation {
    /// The kernel's form. Pointers in it stay valid while `self` is neither moved out of nor dropped: they point into
    /// heap memory that `self` owns, or that the maker of a message vouched for.
    pub(crate) fn entry(&mut self) -> squeue::Entry {
        match self {
            Operation::Accept(fd) => {
                opcode::Accept::new(types::Fd(*fd), std::ptr::null_mut(), std::ptr::null_mut())
                    .flags(libc::SOCK_CLOEXEC)
                    .build()
            }
            Operation::Connect(fd, address) => {
                let pointer = (&raw const address.storage).cast();
                opcode::Connect::new(types::Fd(*fd), pointer, address.bytes).build()
            }
            Operation::Receive(fd, buffer, limit) => {
                let spare = buffer.spare_capacity_mut();
                let pointer = spare.as_mut_ptr().cast();
                let bytes = u32::try_from(spare.len().min(*limit)).unwrap_or(u32::MAX);
                opcode::Recv::new(types::Fd(*fd), pointer, bytes).build()
            }
            Operation::ReceiveMessage(fd, message) => {
                opcode::RecvMsg::new(types::Fd(*fd), message.header())
                    .flags(libc::MSG_WAITALL as u32)
                    .build()
            }
            Operation::SendMessage(fd, message) => {
                let flags = (libc::MSG_WAITALL | libc::MSG_NOSIGNAL) as u32;
                opcode::SendMsg::new(types::Fd(*fd), message.header())
                    .flags(flags)
                    .build()
            }
            Operation::Readable(fd) => {
                opcode::PollAdd::new(types::Fd(*fd), libc::POLLIN as u32).build()
            }
        }
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
            // SAFETY: the kernel wrote `received` bytes into the spare capacity right behind the contents.
            unsafe { buffer.set_len(filled) };
        }
        Self { result, operation }
    }
}
