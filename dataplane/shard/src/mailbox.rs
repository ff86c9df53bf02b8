//! Jobs for a shard from other threads, with a bell that is rung only when the shard sleeps.

mod atomic;
mod sleep_flag;

use crate::environment::Post;
use crate::stream::ShardEnvironment;
use nix::sys::eventfd::{EfdFlags, EventFd};
use sleep_flag::SleepFlag;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::mpsc::{Receiver, Sender, channel};

/// Something to do on a shard's thread.
pub type Job<E = ShardEnvironment> = Box<dyn FnOnce(&E) + Send>;

/// The sending side; clones post to the same shard.
#[derive(Debug, Clone)]
pub struct Mailbox {
    sender: Sender<Job>,
    bell: std::sync::Arc<Bell>,
}

/// The receiving side, on the shard's thread.
pub(crate) struct Inbox {
    receiver: Receiver<Job>,
    pub(crate) bell: std::sync::Arc<Bell>,
}

/// An eventfd that wakes the shard, and whether it needs waking.
#[derive(Debug)]
pub(crate) struct Bell {
    event: EventFd,
    sleeping: SleepFlag,
}

pub(crate) fn mailbox() -> io::Result<(Mailbox, Inbox)> {
    let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
    let event = EventFd::from_value_and_flags(0, flags)?;
    let bell = std::sync::Arc::new(Bell { event, sleeping: SleepFlag::default() });
    let (sender, receiver) = channel();
    Ok((Mailbox { sender, bell: bell.clone() }, Inbox { receiver, bell }))
}

impl Mailbox {
    /// Posts a job; false if the shard is gone.
    pub fn post(&self, job: Job) -> bool {
        if self.sender.send(job).is_err() {
            return false;
        }
        self.bell.ring_if_asleep();
        true
    }
}

impl Post<ShardEnvironment> for Mailbox {
    fn post(&self, job: Job) -> bool {
        Mailbox::post(self, job)
    }
}

impl Inbox {
    pub(crate) fn take(&self) -> Option<Job> {
        self.receiver.try_recv().ok()
    }
}

impl Bell {
    pub(crate) fn descriptor(&self) -> RawFd {
        self.event.as_raw_fd()
    }

    /// Silences it after it was heard.
    pub(crate) fn silence(&self) {
        // It was read already, or is read now; it cannot fail otherwise.
        let _ = self.event.read();
    }

    /// Says that the shard is about to sleep; it must look for work once more afterwards.
    pub(crate) fn announce_sleep(&self) {
        self.sleeping.begin();
    }

    pub(crate) fn announce_awake(&self) {
        self.sleeping.end();
    }

    fn ring_if_asleep(&self) {
        if self.sleeping.must_ring() {
            // The counter cannot overflow: the shard reads it before it announces sleep again.
            let _ = self.event.write(1);
        }
    }
}
