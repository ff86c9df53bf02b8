//! A descriptor that becomes readable, as a completion channel's does.
//! Invariant: counts nothing of its own; it is readable exactly while raised events are undrained.
//!
//! A pipe and not an eventfd: a ring that has an eventfd registered and watches another one loses
//! wake-ups, since the kernel defers a signal that one eventfd causes on another, and only once.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nix::errno::Errno;
use nix::fcntl::OFlag;

use crate::error::VerbsError;

#[derive(Debug)]
pub(super) struct EventPipe {
    reader: OwnedFd,
    writer: OwnedFd,
}

impl EventPipe {
    pub(super) fn new(device: &str) -> Result<EventPipe, VerbsError> {
        match nix::unistd::pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK) {
            Ok((reader, writer)) => Ok(EventPipe { reader, writer }),
            Err(errno) => Err(VerbsError::Call { device: device.to_owned(), call: "pipe2", errno }),
        }
    }

    /// Makes the descriptor readable.
    pub(super) fn raise(&self) {
        // A full pipe is readable all the same.
        let _ = nix::unistd::write(&self.writer, &[1]);
    }

    /// Makes it unreadable again and returns how often it was raised.
    pub(super) fn drain(&self) -> Result<usize, Errno> {
        let mut raised = 0;
        let mut taken = [0; 64];
        loop {
            match nix::unistd::read(&self.reader, &mut taken) {
                Ok(0) | Err(Errno::EAGAIN) => return Ok(raised),
                Ok(count) => raised += count,
                Err(Errno::EINTR) => {}
                Err(errno) => return Err(errno),
            }
        }
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.reader.as_fd()
    }
}
