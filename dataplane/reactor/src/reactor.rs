//! One shard's way to the kernel: io_uring, or epoll where that is refused. Both keep the same
//! promises.

use crate::choice::Backend;
use crate::epoll::set::Epoll;
use crate::limits::RING_ENTRIES;
use crate::message::Message;
use crate::operation::{Finished, Operation};
use crate::submitted::Submitted;
use crate::uring::ring::Ring;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use std::io;
use std::os::fd::{BorrowedFd, RawFd};
use std::rc::Rc;
use std::task::Waker;
use std::time::Duration;

/// Why a reactor could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReactorError {
    /// The kernel refused the ring.
    #[error("The kernel refused an io_uring of {RING_ENTRIES} entries: {0}; {remedy}", remedy = remedy(.0))]
    Ring(io::Error),
    /// The kernel refused the epoll set.
    #[error("The kernel refused an epoll set: {0}; raise the limit of open files (ulimit -n)")]
    Epoll(io::Error),
}

/// What to do about a ring that was refused although the probe at the start got one.
fn remedy(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::EMFILE | libc::ENFILE) => "raise the limit of open files (ulimit -n)",
        Some(libc::ENOMEM) => "raise the limit of locked memory (ulimit -l), or free memory",
        _ => "set PERIGEE_REACTOR=epoll to do without io_uring",
    }
}

/// Carries out the operations of one shard, on its thread.
#[derive(Debug)]
pub struct Reactor {
    way: RunningBackend,
}

#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "a shard has one, which never moves")]
enum RunningBackend {
    Ring(Ring),
    Epoll(Epoll),
}

impl Reactor {
    /// A reactor whose [`Reactor::wait`] also ends when `bell` is readable, an eventfd that must
    /// outlive it.
    ///
    /// # Errors
    /// The kernel refuses it; the message says what to change.
    pub fn new(backend: Backend, bell: RawFd) -> Result<Rc<Self>, ReactorError> {
        let way = match backend {
            Backend::IoUring => RunningBackend::Ring(Ring::new(bell).map_err(ReactorError::Ring)?),
            Backend::Epoll => RunningBackend::Epoll(Epoll::new(bell).map_err(ReactorError::Epoll)?),
        };
        Ok(Rc::new(Self { way }))
    }

    /// Which of the two it is.
    pub fn backend(&self) -> Backend {
        match self.way {
            RunningBackend::Ring(_) => Backend::IoUring,
            RunningBackend::Epoll(_) => Backend::Epoll,
        }
    }

    /// Makes a new socket that will listen or connect fit for this reactor: a ring waits itself and
    /// takes "would block" for an answer, epoll must not be made to wait.
    ///
    /// # Errors
    /// It is not a socket.
    pub fn prepare(&self, socket: BorrowedFd<'_>) -> io::Result<()> {
        if matches!(self.way, RunningBackend::Epoll(_)) {
            fcntl(socket, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        }
        Ok(())
    }

    /// Registers memory, one piece, so that operations on files need not look up its pages each
    /// time. It is locked as long as the answer is kept; `None`: this reactor has no such thing.
    ///
    /// # Errors
    /// The kernel refuses, above all beyond the limit of locked memory.
    pub fn register(self: &Rc<Self>, memory: Message) -> io::Result<Option<RingRegistration>> {
        match &self.way {
            RunningBackend::Ring(ring) => {
                let number = ring.register(memory)?;
                Ok(Some(RingRegistration { reactor: self.clone(), number }))
            }
            RunningBackend::Epoll(_) => Ok(None),
        }
    }

    /// Begins an operation; a ring hands it to the kernel with the next [`Reactor::flush`].
    pub(crate) fn submit(&self, operation: Operation) -> Submitted {
        match &self.way {
            RunningBackend::Ring(ring) => ring.submit(operation),
            RunningBackend::Epoll(epoll) => epoll.submit(operation),
        }
    }

    /// Hands what is queued to the kernel.
    ///
    /// # Errors
    /// The kernel refused for a reason that does not pass.
    pub fn flush(&self) -> io::Result<()> {
        match &self.way {
            RunningBackend::Ring(ring) => ring.flush(),
            RunningBackend::Epoll(_) => Ok(()),
        }
    }

    /// Collects what the kernel has done and wakes who waits for it; returns how many operations
    /// moved.
    pub fn reap(&self) -> usize {
        match &self.way {
            RunningBackend::Ring(ring) => ring.reap(),
            RunningBackend::Epoll(epoll) => epoll.reap(),
        }
    }

    /// Sleeps until there is something to reap, the bell is rung or `limit` has passed.
    ///
    /// # Errors
    /// The kernel refused for a reason that does not pass.
    pub fn wait(&self, limit: Option<Duration>) -> io::Result<()> {
        match &self.way {
            RunningBackend::Ring(ring) => ring.wait(limit),
            RunningBackend::Epoll(epoll) => epoll.wait(limit),
        }
    }

    /// Whether the bell was rung since this was last asked. It stays rung until its eventfd is
    /// read.
    pub fn take_bell(&self) -> bool {
        match &self.way {
            RunningBackend::Ring(ring) => ring.take_bell(),
            RunningBackend::Epoll(epoll) => epoll.take_bell(),
        }
    }

    /// Operations that are under way.
    pub fn in_flight(&self) -> usize {
        match &self.way {
            RunningBackend::Ring(ring) => ring.in_flight(),
            RunningBackend::Epoll(epoll) => epoll.in_flight(),
        }
    }

    pub(crate) fn poll_slot(&self, slot: u32, waker: &Waker) -> Option<Finished> {
        match &self.way {
            RunningBackend::Ring(ring) => ring.poll_slot(slot, waker),
            RunningBackend::Epoll(epoll) => epoll.poll_slot(slot, waker),
        }
    }

    pub(crate) fn abandon(&self, slot: u32) {
        match &self.way {
            RunningBackend::Ring(ring) => ring.abandon(slot),
            RunningBackend::Epoll(epoll) => epoll.abandon(slot),
        }
    }
}

/// Memory that is registered with a reactor, until this is dropped.
#[derive(Debug)]
pub struct RingRegistration {
    reactor: Rc<Reactor>,
    number: u16,
}

impl Drop for RingRegistration {
    fn drop(&mut self) {
        if let RunningBackend::Ring(ring) = &self.reactor.way
            && let Err(error) = ring.unregister(self.number)
        {
            tracing::warn!(%error, "io_uring keeps registered memory");
        }
    }
}
