//! What is known against a disk. Invariant: the state follows from what its operations did, and
//! each state but the healthy one has a reason in words.

use crate::limits::{
    READ_ERRORS_MAX, READ_ERRORS_WITHIN, STALL_REFUSES_READS, STALL_REFUSES_WRITES, STALL_SHOWN,
    WRITE_ERRORS_MAX, WRITE_RETRY,
};
use perigee_schemas::DiskHealth;
use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::time::Duration;

/// Whether a file system has no room.
pub(super) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// A state and why it is so.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiskState {
    /// How far it can be used.
    pub health: DiskHealth,
    /// Why, for people; empty if it is healthy.
    pub reason: String,
}

impl fmt::Display for DiskState {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.reason)
    }
}

/// What the operations of a disk did lately.
#[derive(Debug, Default)]
pub(super) struct HealthRecord {
    /// Why it takes no writes, and when that is tried again.
    refusal: Option<WriteStop>,
    withdrawn: Option<String>,
    write_errors: u32,
    read_errors: VecDeque<Duration>,
    /// How long the oldest operation has taken up to now, and the oldest read.
    stalled: Duration,
    stalled_read: Duration,
}

/// Why a disk takes no writes.
#[derive(Debug)]
struct WriteStop {
    state: DiskState,
    /// When one is tried again; never if the log has ended.
    again: Option<Duration>,
}

impl HealthRecord {
    /// The worst that is known.
    pub(super) fn state(&self) -> DiskState {
        if let Some(reason) = &self.withdrawn {
            return DiskState { health: DiskHealth::Withdrawn, reason: reason.clone() };
        }
        if let Some(refusal) = &self.refusal {
            return refusal.state.clone();
        }
        let is_hung =
            self.stalled >= STALL_REFUSES_WRITES || self.stalled_read >= STALL_REFUSES_READS;
        let health = match self.stalled {
            _ if is_hung => DiskHealth::Hung,
            stalled if stalled >= STALL_SHOWN => DiskHealth::Slow,
            _ => return DiskState::default(),
        };
        let seconds = self.stalled.as_secs();
        DiskState { health, reason: format!("an operation has taken more than {seconds} s") }
    }

    /// Whether nothing can be written until the disk is opened again.
    pub(super) fn must_reopen(&self) -> bool {
        let is_final = |refusal: &WriteStop| refusal.again.is_none();
        self.withdrawn.is_some() || self.refusal.as_ref().is_some_and(is_final)
    }

    /// Whether a write can be tried at `now`.
    pub(super) fn takes_writes(&self, now: Duration) -> bool {
        let may_try = |refusal: &WriteStop| refusal.again.is_some_and(|at| at <= now);
        let is_writable = self.refusal.as_ref().is_none_or(may_try);
        self.withdrawn.is_none() && self.stalled < STALL_REFUSES_WRITES && is_writable
    }

    /// Whether a read is tried: behind one that hangs the next one hangs too, and its caller has
    /// better things to do.
    pub(super) fn takes_reads(&self) -> bool {
        self.withdrawn.is_none() && self.stalled_read < STALL_REFUSES_READS
    }

    /// A write, sync or allocation has failed.
    pub(super) fn note_write_error(&mut self, now: Duration, error: &io::Error) {
        self.write_errors += 1;
        let is_final = is_full(error) || error.kind() == io::ErrorKind::ReadOnlyFilesystem;
        if is_final || self.write_errors >= WRITE_ERRORS_MAX {
            let health = if is_full(error) { DiskHealth::Full } else { DiskHealth::ReadOnly };
            let state = DiskState { health, reason: format!("writes fail: {error}") };
            self.refusal = Some(WriteStop { state, again: Some(now + WRITE_RETRY) });
        }
        self.check();
    }

    /// What the state says is what is refused.
    fn check(&self) {
        let is_well = self.state().health == DiskHealth::Healthy;
        debug_assert!(!is_well || self.takes_reads(), "a disk that is well is read");
        debug_assert!(!is_well || self.refusal.is_none(), "a disk that is well is written to");
        debug_assert!(!is_well || !self.must_reopen(), "a disk that is well stays open");
    }

    /// Nothing can be written until the disk is opened again.
    pub(super) fn note_log_end(&mut self, reason: &str) {
        let state = DiskState { health: DiskHealth::ReadOnly, reason: reason.to_owned() };
        self.refusal = Some(WriteStop { state, again: None });
        self.check();
    }

    /// A write has ended well.
    pub(super) fn note_write(&mut self) {
        self.write_errors = 0;
        self.refusal.take_if(|refusal| refusal.again.is_some());
    }

    /// A read has failed.
    pub(super) fn note_read_error(&mut self, now: Duration, error: &io::Error) {
        self.read_errors.push_back(now);
        while self.read_errors.front().is_some_and(|at| now - *at > READ_ERRORS_WITHIN) {
            self.read_errors.pop_front();
        }
        if self.read_errors.len() >= READ_ERRORS_MAX {
            self.withdrawn.get_or_insert_with(|| {
                format!(
                    "{READ_ERRORS_MAX} reads within a minute have failed, the last one: {error}"
                )
            });
        }
    }

    /// The oldest operation under way has taken so long, and the oldest read.
    pub(super) fn note_stall(&mut self, all: Duration, reads: Duration) {
        debug_assert!(reads <= all, "a read is one of the operations");
        (self.stalled, self.stalled_read) = (all, reads);
        self.check();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(100);

    fn error(number: i32) -> io::Error {
        io::Error::from_raw_os_error(number)
    }

    #[test]
    fn a_disk_that_is_full_or_read_only_is_tried_again_later() {
        for (number, health) in
            [(28, DiskHealth::Full), (30, DiskHealth::ReadOnly), (122, DiskHealth::Full)]
        {
            let mut record = HealthRecord::default();
            record.note_write_error(NOW, &error(number));
            assert_eq!(record.state().health, health);
            assert!(!record.takes_writes(NOW) && record.takes_reads());
            assert!(record.takes_writes(NOW + WRITE_RETRY), "one more is tried");
            assert_eq!(record.state().health, health, "it is not known to be better");
            record.note_write();
            assert_eq!(record.state(), DiskState::default());
        }
    }

    #[test]
    fn a_single_write_error_is_not_the_end_and_a_row_of_them_is() {
        let mut record = HealthRecord::default();
        record.note_write_error(NOW, &error(5));
        assert_eq!(record.state().health, DiskHealth::Healthy);
        for _ in 1..WRITE_ERRORS_MAX {
            record.note_write_error(NOW, &error(5));
        }
        assert_eq!(record.state().health, DiskHealth::ReadOnly);
        assert!(!record.must_reopen(), "it is tried again as it is");
        record.note_log_end("a header failed");
        record.note_write();
        assert!(record.must_reopen());
        assert!(!record.takes_writes(NOW + 10 * WRITE_RETRY), "that stays");
    }

    #[test]
    fn reads_that_fail_in_a_row_end_the_disk_and_seldom_ones_do_not() {
        let mut record = HealthRecord::default();
        for step in 0..10 {
            record.note_read_error(NOW + READ_ERRORS_WITHIN * step, &error(5));
        }
        assert!(record.takes_reads());
        let last = NOW + READ_ERRORS_WITHIN * 100;
        (0..READ_ERRORS_MAX).for_each(|_| record.note_read_error(last, &error(5)));
        assert!(!record.takes_reads() && !record.takes_writes(last) && record.must_reopen());
        assert!(record.state().reason.contains("3 reads within a minute"), "{:?}", record.state());
    }

    #[test]
    fn an_operation_that_takes_long_makes_a_disk_slow_and_then_hung_until_it_ends() {
        let mut record = HealthRecord::default();
        record.note_stall(STALL_SHOWN, Duration::ZERO);
        assert_eq!(record.state().health, DiskHealth::Slow);
        assert!(record.takes_writes(NOW));
        record.note_stall(STALL_REFUSES_WRITES, Duration::ZERO);
        assert_eq!(record.state().health, DiskHealth::Hung);
        assert!(!record.takes_writes(NOW) && record.takes_reads(), "a sync that hangs");
        record.note_stall(STALL_REFUSES_READS, STALL_REFUSES_READS);
        assert_eq!(record.state().health, DiskHealth::Hung);
        assert!(record.takes_writes(NOW) && !record.takes_reads());
        record.note_stall(Duration::ZERO, Duration::ZERO);
        assert_eq!(record.state().health, DiskHealth::Healthy);
        assert!(record.takes_reads());
    }
}
