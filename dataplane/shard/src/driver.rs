//! The task that drives a shard: mailbox, timers, pollers, ring; polls adaptively, then sleeps in the ring.
//!
//! After the last completion it keeps polling for the shard's poll window, because a sleep and a wake-up cost more than
//! most round trips. The invariant: whatever a shard waits for ends a wait of its ring, and it sleeps only when no task
//! can run.

use crate::clock::monotonic;
use crate::limits::JOBS_PER_TURN;
use crate::mailbox::Inbox;
use crate::patience::{DEVICE_WATCH, Yield, is_crowded, yield_core};
use crate::stream::ShardEnvironment;
use std::time::{Duration, Instant};

/// Drives one shard until the process ends.
pub(crate) struct Driver {
    environment: ShardEnvironment,
    inbox: Inbox,
    poll: Duration,
}

impl Driver {
    pub(crate) fn new(environment: ShardEnvironment, inbox: Inbox, poll: Duration) -> Self {
        Self {
            environment,
            inbox,
            poll,
        }
    }

    /// Runs for ever.
    pub(crate) async fn run(mut self) {
        let mut active = monotonic();
        loop {
            let worked = self.turn();
            if self.environment.runnable.any() {
                active = monotonic();
                // What the tasks submit is flushed by the next turn.
                glommio::executor().yield_task_queue_now().await;
                continue;
            }
            let now = monotonic();
            if worked {
                active = now;
                continue;
            }
            // A descriptor that is watched counts as under way: after one piece of work the next is often near.
            let by_device = self.environment.pollers.is_busy();
            let under_way = by_device || self.environment.ring.in_flight() > 0;
            let window = if by_device {
                self.device_window()
            } else {
                self.poll
            };
            let polling = under_way && now - active < window;
            if !polling || is_crowded(Instant::now()) {
                self.sleep();
                active = monotonic();
            } else if yield_core(Instant::now()) == Yield::Shared && !by_device {
                // Another thread needed this core: watching an empty ring would keep it from working. A device's driver
                // may be that other thread.
                active = now.saturating_sub(self.poll);
            }
        }
    }

    /// How long it polls while a device works; not at all where polling is turned off.
    fn device_window(&self) -> Duration {
        if self.poll.is_zero() {
            return Duration::ZERO;
        }
        self.poll.max(DEVICE_WATCH)
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
        worked |= self.environment.ring.reap() > 0;
        let rang = self.environment.ring.take_bell();
        if rang {
            self.inbox.bell.silence();
        }
        worked | rang
    }

    fn sleep(&mut self) {
        let wake = self.environment.pollers.before_sleep();
        self.inbox.bell.announce_sleep();
        if self.turn() || self.environment.runnable.any() {
            self.inbox.bell.announce_awake();
            return;
        }
        let timers = self.environment.timers.next_deadline();
        let deadline = timers.into_iter().chain(wake).min();
        let limit = deadline.map(|deadline| deadline.saturating_sub(monotonic()));
        if let Err(error) = self.environment.ring.wait(limit) {
            tracing::error!(%error, "io_uring cannot be waited for; the shard looks again and again");
        }
        self.inbox.bell.announce_awake();
    }
}
