//! The end of a wait, to the nanosecond: epoll's own timeout counts milliseconds.

use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use std::cell::Cell;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

/// A timer that makes its descriptor readable.
#[derive(Debug)]
pub(super) struct Alarm {
    timer: TimerFd,
    is_set: Cell<bool>,
}

impl Alarm {
    pub(super) fn new() -> io::Result<Self> {
        let flags = TimerFlags::TFD_CLOEXEC | TimerFlags::TFD_NONBLOCK;
        Ok(Self { timer: TimerFd::new(ClockId::CLOCK_MONOTONIC, flags)?, is_set: Cell::new(false) })
    }

    /// Sets it to `limit` from now, or off. Setting it also silences it after it went off.
    pub(super) fn set(&self, limit: Option<Duration>) -> io::Result<()> {
        match limit {
            Some(limit) => {
                let expiration = Expiration::OneShot(TimeSpec::from(limit));
                self.timer.set(expiration, TimerSetTimeFlags::empty())?;
            }
            None if self.is_set.get() => self.timer.unset()?,
            None => {}
        }
        self.is_set.set(limit.is_some());
        Ok(())
    }
}

impl AsFd for Alarm {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.timer.as_fd()
    }
}
