//! A thread that waits for completion events and wakes their shard. It sleeps as long as the shard polls.
//!
//! The shard's own ring could watch the channels, too; that this works on every kernel and device has not been shown yet,
//! and a lost event would cost a sleep. The invariant: each event taken is followed by a job for the shard.

use super::shard_error;
use crate::error::RailError;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use perigee_shard::Mailbox;
use perigee_verbs::CompletionQueue;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// The completion queues of one shard, and which of them are armed.
#[derive(Clone, Debug)]
pub(super) struct ArmedQueues {
    queues: Arc<[(Arc<dyn CompletionQueue>, AtomicBool)]>,
}

impl ArmedQueues {
    pub(super) fn new(queues: impl Iterator<Item = Arc<dyn CompletionQueue>>) -> Self {
        let unarmed = |queue| (queue, AtomicBool::new(false));
        Self {
            queues: queues.map(unarmed).collect(),
        }
    }

    /// Makes the next completion on any of them wake the shard.
    pub(super) fn arm(&self) {
        for (queue, armed) in &*self.queues {
            if armed.load(Ordering::Acquire) {
                continue;
            }
            match queue.arm() {
                Ok(()) => armed.store(true, Ordering::Release),
                Err(error) => tracing::warn!(%error, "A completion queue cannot be armed"),
            }
        }
    }

    /// Takes the events of one queue; false if it can give no more.
    fn drain(&self, index: usize) -> bool {
        let (queue, armed) = &self.queues[index];
        let drained = queue.drain_events();
        armed.store(false, Ordering::Release);
        drained.unwrap_or_else(|error| {
            tracing::error!(%error, "Completion events cannot be read; the shard looks now and then");
            0
        }) > 0
    }
}

/// The waiting thread of one shard. Dropping it ends the thread.
#[derive(Debug)]
pub(super) struct EventThread {
    stop: Arc<EventFd>,
    thread: Option<JoinHandle<()>>,
}

impl EventThread {
    /// Waits for events of `queues` and wakes the shard behind `mailbox`.
    pub(super) fn start(queues: ArmedQueues, mailbox: Mailbox) -> Result<Self, RailError> {
        let flags = EfdFlags::EFD_CLOEXEC;
        let stop = EventFd::from_value_and_flags(0, flags).map_err(|error| shard_error(&error))?;
        let stop = Arc::new(stop);
        let theirs = stop.clone();
        let builder = std::thread::Builder::new().name("perigee-events".to_owned());
        let thread = builder.spawn(move || wait(&queues, &mailbox, &theirs));
        Ok(Self {
            stop,
            thread: Some(thread.map_err(|error| shard_error(&error))?),
        })
    }
}

impl Drop for EventThread {
    fn drop(&mut self) {
        // The counter cannot overflow: it is written once.
        let _ = self.stop.write(1);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn wait(queues: &ArmedQueues, mailbox: &Mailbox, stop: &EventFd) {
    // Channels that are broken are not watched: the wait would return for ever.
    let mut watched: Vec<usize> = (0..queues.queues.len()).collect();
    loop {
        let channels = watched
            .iter()
            .map(|index| queues.queues[*index].0.event_fd());
        let all = std::iter::once(stop.as_fd()).chain(channels);
        let mut all: Vec<_> = all.map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
        match poll(&mut all, PollTimeout::NONE) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => {
                return tracing::error!(%error, "Completion events cannot be waited for; the shard looks now and then");
            }
        }
        let mut ready = all.iter().map(|one| one.any().unwrap_or(false));
        if ready.next() == Some(true) {
            return;
        }
        let ready: Vec<bool> = ready.collect();
        let mut ready = ready.into_iter();
        watched.retain(|index| ready.next() != Some(true) || queues.drain(*index));
        mailbox.post(Box::new(|_| {}));
    }
}
