//! Who waits for a descriptor: the slots of its operations, by direction, in the order they were
//! submitted.

use crate::operation::Operation;
use nix::sys::epoll::EpollFlags;
use std::collections::VecDeque;
use std::os::fd::RawFd;

/// What a descriptor has to be ready for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Interest {
    In,
    Out,
}

impl Interest {
    pub(super) const BOTH: [Self; 2] = [Self::In, Self::Out];

    pub(super) fn of(operation: &Operation) -> Self {
        match operation {
            Operation::Accept(_)
            | Operation::Receive(..)
            | Operation::ReceiveMessage(..)
            | Operation::Readable(_)
            | Operation::File(_) => Self::In,
            Operation::Connect(..) | Operation::SendMessage(..) => Self::Out,
        }
    }

    /// What epoll is asked for.
    fn wanted(self) -> EpollFlags {
        match self {
            Self::In => EpollFlags::EPOLLIN | EpollFlags::EPOLLRDHUP,
            Self::Out => EpollFlags::EPOLLOUT,
        }
    }

    /// Whether what epoll said may let an operation go on. Errors and hang-ups end all of them.
    pub(super) fn is_in(self, flags: EpollFlags) -> bool {
        let ends = EpollFlags::EPOLLERR | EpollFlags::EPOLLHUP;
        flags.intersects(self.wanted() | ends)
    }
}

/// Waiting operations by descriptor.
#[derive(Debug, Default)]
pub(super) struct Queues {
    /// By the number of the descriptor: the kernel gives the lowest free one, so there are few
    /// gaps.
    descriptors: Vec<[VecDeque<u32>; 2]>,
}

impl Queues {
    pub(super) fn is_empty(&self, fd: RawFd, direction: Interest) -> bool {
        self.head(fd, direction).is_none()
    }

    /// The operation that goes on first.
    pub(super) fn head(&self, fd: RawFd, direction: Interest) -> Option<u32> {
        let queues = self.descriptors.get(fd as usize)?;
        queues[direction as usize].front().copied()
    }

    pub(super) fn push(&mut self, fd: RawFd, direction: Interest, slot: u32) {
        let fd = fd as usize;
        if fd >= self.descriptors.len() {
            self.descriptors.resize_with(fd + 1, Default::default);
        }
        self.descriptors[fd][direction as usize].push_back(slot);
    }

    pub(super) fn remove(&mut self, fd: RawFd, direction: Interest, slot: u32) {
        if let Some(queues) = self.descriptors.get_mut(fd as usize) {
            queues[direction as usize].retain(|waiting| *waiting != slot);
        }
    }

    /// What to ask epoll about a descriptor; nothing if no operation waits for it.
    pub(super) fn wanted(&self, fd: RawFd) -> EpollFlags {
        let waits = |direction: &Interest| !self.is_empty(fd, *direction);
        let waiting = Interest::BOTH.into_iter().filter(waits);
        waiting.map(Interest::wanted).collect()
    }
}
