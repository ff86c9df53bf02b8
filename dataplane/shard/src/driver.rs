//! What drives a shard between its tasks: mailbox, timers, pollers, reactor; polls adaptively, then
//! sleeps in the reactor.
//!
//! After the last completion it keeps polling for the shard's poll window, because a sleep and a
//! wake-up cost more than most round trips. The invariant: whatever a shard waits for ends a wait
//! of its reactor, and it sleeps only when no task can run.

use crate::clock::monotonic;
use crate::limits::JOBS_PER_TURN;
use crate::mailbox::Inbox;
use crate::spin::{DEVICE_WATCH, Yield, is_crowded, yield_core};
use crate::stream::ShardEnvironment;
use std::time::{Duration, Instant};

/// Drives one shard. Its executor steps it and runs tasks, in turn, until the process ends.
pub(crate) struct Driver {
    environment: ShardEnvironment,
    inbox: Inbox,
    poll: Duration,
    /// When anything happened last.
    active: Duration,
}

impl Driver {
    pub(crate) fn new(environment: ShardEnvironment, inbox: Inbox, poll: Duration) -> Self {
        Self { environment, inbox, poll, active: monotonic() }
    }

    /// Looks at everything once, and sleeps if there is nothing to do. Returns how many tasks can
    /// run; what they submit is flushed by the next step.
    pub(crate) fn step(&mut self) -> usize {
        let worked = self.turn();
        let runnable = self.environment.runnable.count();
        if runnable > 0 {
            self.active = monotonic();
            return runnable;
        }
        let now = monotonic();
        if worked {
            self.active = now;
            return 0;
        }
        // A descriptor that is watched counts as under way: after one piece of work the next is
        // often near.
        let by_device = self.environment.pollers.is_busy();
        let under_way = by_device || self.environment.reactor.in_flight() > 0;
        let window = if by_device { self.device_window() } else { self.poll };
        let polling = under_way && now - self.active < window;
        if !polling || is_crowded(Instant::now()) {
            self.sleep();
            self.active = monotonic();
        } else if yield_core(Instant::now()) == Yield::Shared && !by_device {
            // Another thread needed this core: watching an idle reactor would keep it from working.
            // A device's driver may be that other thread.
            self.active = now.saturating_sub(self.poll);
        }
        self.environment.runnable.count()
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
        if let Err(error) = self.environment.reactor.flush() {
            tracing::error!(%error, "io_uring failed; transfers of this shard wait until it works again");
        }
        worked |= self.environment.reactor.reap() > 0;
        let rang = self.environment.reactor.take_bell();
        if rang {
            self.inbox.bell.silence();
        }
        worked | rang
    }

    fn sleep(&mut self) {
        let wake = self.environment.pollers.before_sleep();
        self.inbox.bell.announce_sleep();
        if self.turn() || self.environment.runnable.count() > 0 {
            self.inbox.bell.announce_awake();
            return;
        }
        let timers = self.environment.timers.next_deadline();
        let deadline = timers.into_iter().chain(wake).min();
        let limit = deadline.map(|deadline| deadline.saturating_sub(monotonic()));
        if let Err(error) = self.environment.reactor.wait(limit) {
            tracing::error!(%error, "Waiting for the reactor failed; the shard polls instead");
        }
        self.inbox.bell.announce_awake();
    }
}
