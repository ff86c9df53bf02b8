//! The task that drives a shard: mailbox, timers, pollers, ring; polls adaptively, then sleeps on the bell.
//!
//! After the last completion it keeps polling for the shard's poll window, because a sleep and a wake-up cost more than
//! most round trips. It leaves glommio's task queue now and then so that glommio's own reactor is not starved.

use crate::clock::monotonic;
use crate::limits::{JOBS_PER_TURN, REACTOR_INTERVAL};
use crate::mailbox::Inbox;
use crate::patience::yield_core;
use crate::stream::ShardEnvironment;
use glommio::io::BufferedFile;
use perigee_ring::Operation;
use std::os::fd::{FromRawFd, IntoRawFd};
use std::time::{Duration, Instant};

/// Drives one shard until the process ends.
pub(crate) struct Driver {
    environment: ShardEnvironment,
    inbox: Inbox,
    poll: Duration,
    armed: Option<Duration>,
}

impl Driver {
    pub(crate) fn new(environment: ShardEnvironment, inbox: Inbox, poll: Duration) -> Self {
        Self {
            environment,
            inbox,
            poll,
            armed: None,
        }
    }

    /// Runs for ever.
    pub(crate) async fn run(mut self) {
        let bell = match self.inbox.bell.duplicate() {
            Ok(bell) => bell.into_raw_fd(),
            Err(error) => return tracing::error!(%error, "The shard cannot watch its bell"),
        };
        // SAFETY: the descriptor was duplicated for this file alone.
        let bell = unsafe { BufferedFile::from_raw_fd(bell) };
        let mut active = monotonic();
        let mut reactor = active;
        loop {
            let worked = self.turn();
            let now = monotonic();
            if worked {
                active = now;
            }
            let under_way =
                self.environment.ring.in_flight() > 0 || self.environment.pollers.is_busy();
            let polling = under_way && now - active < self.poll;
            if !worked && !polling {
                self.sleep(&bell).await;
                active = monotonic();
                reactor = active;
                // Tasks that the last look has woken run before the next sleep: what they submit has to be flushed.
                glommio::executor().yield_task_queue_now().await;
                continue;
            }
            if !worked && yield_core(Instant::now()) {
                // Another thread needed this core: watching an empty ring would keep it from working.
                active = now.saturating_sub(self.poll);
            }
            if now - reactor > REACTOR_INTERVAL {
                glommio::timer::sleep(Duration::from_micros(1)).await;
                reactor = monotonic();
            } else {
                glommio::executor().yield_task_queue_now().await;
            }
        }
    }

    /// One look at everything; true if anything happened.
    fn turn(&mut self) -> bool {
        let mut worked = false;
        for _ in 0..JOBS_PER_TURN {
            let Some(job) = self.inbox.take() else { break };
            job(&self.environment);
            worked = true;
        }
        let now = monotonic();
        worked |= self.environment.timers.fire(now) > 0;
        worked |= self.environment.pollers.turn(now);
        if let Err(error) = self.environment.ring.flush() {
            tracing::error!(%error, "io_uring failed; transfers of this shard wait until it works again");
        }
        worked | (self.environment.ring.reap() > 0)
    }

    async fn sleep(&mut self, bell: &BufferedFile) {
        let wake = self.environment.pollers.before_sleep();
        self.arm_timer(wake);
        self.inbox.bell.announce_sleep();
        if self.turn() || self.environment.ring.has_unsubmitted() {
            self.inbox.bell.announce_awake();
            return;
        }
        if let Err(error) = bell.read_at(0, 8).await {
            tracing::error!(%error, "The shard's bell cannot be read");
        }
        self.inbox.bell.announce_awake();
    }

    /// Lets the ring wake the shard for the next timer or poller; a timeout that is already on its way early enough is
    /// kept.
    fn arm_timer(&mut self, wake: Option<Duration>) {
        let timers = self.environment.timers.next_deadline();
        let Some(deadline) = timers.into_iter().chain(wake).min() else {
            return;
        };
        let now = monotonic();
        if self
            .armed
            .is_some_and(|armed| armed > now && armed <= deadline)
        {
            return;
        }
        let length = deadline.saturating_sub(now).max(Duration::from_micros(1));
        drop(self.environment.ring.submit(Operation::timeout(length)));
        self.armed = Some(now + length);
    }
}
