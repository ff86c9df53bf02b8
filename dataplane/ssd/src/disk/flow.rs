//! How much a disk is given at once. Invariant: reads never wait behind more writes than a few
//! small ones, because a disk serves in order.

use super::change_notify::ChangeNotify;
use crate::limits::{READS_IN_FLIGHT, READS_LINGER, WRITE_ALONE, WRITE_BESIDE_READS};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::time::Duration;

/// What is under way.
#[derive(Debug, Default)]
pub(super) struct Flow {
    reads: Cell<usize>,
    read_bytes: Cell<u64>,
    last_read: Cell<Option<Duration>>,
    writes: Cell<usize>,
    changes: ChangeNotify,
    /// Reads that wait for memory, by their numbers.
    line: RefCell<VecDeque<u64>>,
    numbered: Cell<u64>,
}

/// A place in the line of reads that wait for memory; left when it is dropped.
pub(super) struct LinePlace<'a> {
    flow: &'a Flow,
    number: u64,
}

impl LinePlace<'_> {
    pub(super) fn is_first(&self) -> bool {
        self.flow.line.borrow().front() == Some(&self.number)
    }
}

impl Drop for LinePlace<'_> {
    fn drop(&mut self) {
        self.flow.line.borrow_mut().retain(|number| *number != self.number);
    }
}

impl Flow {
    /// Waits behind the reads that wait for memory already.
    pub(super) fn join_line(&self) -> LinePlace<'_> {
        let number = self.numbered.get();
        self.numbered.set(number + 1);
        self.line.borrow_mut().push_back(number);
        LinePlace { flow: self, number }
    }

    /// Waits until a read of so many bytes can begin.
    pub(super) async fn begin_read(&self, bytes: u32) {
        let (reads_max, bytes_max) = READS_IN_FLIGHT;
        let is_turn = || {
            let has_room = self.read_bytes.get() + u64::from(bytes) <= bytes_max;
            (self.reads.get() < reads_max && has_room).then_some(())
        };
        self.changes.until(is_turn).await;
        self.reads.set(self.reads.get() + 1);
        self.read_bytes.set(self.read_bytes.get() + u64::from(bytes));
        debug_assert!(self.reads.get() <= reads_max, "reads under way are bounded");
        debug_assert!(self.read_bytes.get() <= bytes_max, "and so are their bytes");
    }

    pub(super) fn end_read(&self, bytes: u32, now: Duration) {
        self.reads.set(self.reads.get() - 1);
        self.read_bytes.set(self.read_bytes.get() - u64::from(bytes));
        let is_over = self.reads.get() > 0 || self.read_bytes.get() == 0;
        debug_assert!(is_over, "a read ends with the bytes that it began with");
        self.last_read.set(Some(now));
        self.changes.notify();
    }

    /// Waits until a write can begin; most bytes that it may have.
    pub(super) async fn begin_write(&self, now: impl Fn() -> Duration) -> u32 {
        let is_turn = || {
            let (bytes, count) = self.write_terms(now());
            (self.writes.get() < count).then_some(bytes)
        };
        let bytes = self.changes.until(is_turn).await;
        self.writes.set(self.writes.get() + 1);
        debug_assert!(self.writes.get() <= WRITE_ALONE.1, "writes under way are few");
        bytes
    }

    pub(super) fn end_write(&self) {
        self.writes.set(self.writes.get() - 1);
        self.changes.notify();
    }

    fn write_terms(&self, now: Duration) -> (u32, usize) {
        let is_read = self.reads.get() > 0
            || self.last_read.get().is_some_and(|last| now.saturating_sub(last) < READS_LINGER);
        if is_read { WRITE_BESIDE_READS } else { WRITE_ALONE }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_are_small_and_few_while_there_are_reads_and_for_a_moment_after() {
        let flow = Flow::default();
        let now = Duration::from_secs(5);
        assert_eq!(flow.write_terms(now), WRITE_ALONE);
        flow.reads.set(1);
        flow.read_bytes.set(10);
        assert_eq!(flow.write_terms(now), WRITE_BESIDE_READS);
        flow.end_read(10, now);
        assert_eq!(flow.write_terms(now), WRITE_BESIDE_READS);
        assert_eq!(flow.write_terms(now + READS_LINGER), WRITE_ALONE);
    }
}
