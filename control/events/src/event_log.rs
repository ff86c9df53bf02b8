//! The last messages with their sequence numbers: what subscribers are sent and consumers replay.
//! Invariant: sequence numbers rise; what is kept is bounded in messages and in bytes, whatever
//! consumers do.

use crate::limits::{LOG_BATCHES_MAX, LOG_BYTES_MAX, SPARE_RUNS_MAX};
use crate::message_run::MessageRun;
use std::collections::VecDeque;
use std::rc::Rc;

/// The last messages.
#[derive(Debug)]
pub(crate) struct EventLog {
    runs: VecDeque<Rc<MessageRun>>,
    messages: usize,
    bytes: usize,
    next: u64,
    /// Memory of runs that are gone: to ask the system for it again costs more than to write to it.
    spare: Vec<Vec<u8>>,
}

impl EventLog {
    /// A log whose first message has this number.
    pub(crate) fn starting_at(first: u64) -> Self {
        Self { runs: VecDeque::new(), messages: 0, bytes: 0, next: first, spare: Vec::new() }
    }

    /// Sequence number of the next message.
    pub(crate) fn next_sequence(&self) -> u64 {
        self.next
    }

    /// Leaves a gap that consumers see: events were lost here.
    pub(crate) fn skip(&mut self, lost: u64) {
        self.next += lost;
    }

    /// Adds messages, which begin with the next number, and drops the oldest beyond the bounds.
    pub(crate) fn push(&mut self, run: MessageRun) {
        self.messages += run.messages();
        self.bytes += run.bytes();
        self.next = run.end();
        self.runs.push_back(Rc::new(run));
        while self.messages > LOG_BATCHES_MAX || self.bytes > LOG_BYTES_MAX {
            self.drop_oldest();
        }
    }

    /// Empty memory for a run of about so many bytes.
    pub(crate) fn memory(&mut self, room: usize) -> Vec<u8> {
        // A short run would keep long memory for as long as it can be replayed.
        let spare = self.spare.pop_if(|spare| spare.capacity() / 2 <= room);
        spare.unwrap_or_else(|| Vec::with_capacity(room))
    }

    /// Drops what lies before a sequence number.
    pub(crate) fn forget_before(&mut self, sequence: u64) {
        while self.runs.front().is_some_and(|run| run.end() <= sequence) {
            self.drop_oldest();
        }
    }

    /// The first messages from a sequence number on.
    pub(crate) fn from(&self, sequence: u64) -> Option<Rc<MessageRun>> {
        let at = self.runs.partition_point(|run| run.end() <= sequence);
        self.runs.get(at).cloned()
    }

    fn drop_oldest(&mut self) {
        if let Some(oldest) = self.runs.pop_front() {
            self.messages -= oldest.messages();
            self.bytes -= oldest.bytes();
            if self.spare.len() < SPARE_RUNS_MAX
                && let Ok(oldest) = Rc::try_unwrap(oldest)
            {
                self.spare.extend(oldest.into_spare());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::RUN_BYTES_MAX;
    use crate::message_run::samples::run;

    fn ends(log: &EventLog) -> Vec<u64> {
        log.runs.iter().map(|run| run.end()).collect()
    }

    #[test]
    fn messages_come_in_order_from_any_number_and_gaps_are_passed() {
        let mut log = EventLog::starting_at(0);
        log.push(run(0, 2, 1));
        log.skip(3);
        log.push(run(log.next_sequence(), 1, 1));
        for (from, end) in [(0, 2), (1, 2), (2, 6), (5, 6)] {
            assert_eq!(log.from(from).unwrap().end(), end);
        }
        assert_eq!(log.from(6), None);
        assert_eq!(log.next_sequence(), 6);
    }

    #[test]
    fn what_lies_before_a_number_is_forgotten_run_by_run() {
        let mut log = EventLog::starting_at(0);
        log.push(run(0, 2, 1));
        log.push(run(2, 2, 1));
        log.forget_before(3);
        assert_eq!((ends(&log), log.messages, log.bytes), (vec![4], 2, 2));
        log.forget_before(4);
        assert_eq!((ends(&log), log.messages, log.bytes), (vec![], 0, 0));
    }

    #[test]
    fn memory_of_long_runs_is_used_again_for_long_runs_that_have_no_readers() {
        let mut log = EventLog::starting_at(0);
        let long = RUN_BYTES_MAX;
        log.push(run(0, 1, long));
        log.push(run(1, 1, long));
        let read = log.from(1);
        log.forget_before(2);
        drop(read);
        assert_eq!(log.spare.len(), 1);
        assert!(log.memory(1).capacity() < long);
        let memory = log.memory(long / 2);
        assert!(memory.is_empty() && memory.capacity() >= long && log.spare.is_empty());
        for number in 2..2 + 2 * SPARE_RUNS_MAX as u64 {
            log.push(run(number, 1, long));
        }
        log.push(run(log.next_sequence(), 1, 1));
        log.forget_before(log.next_sequence());
        assert_eq!(log.spare.len(), SPARE_RUNS_MAX);
    }

    #[test]
    fn the_oldest_go_when_there_are_too_many_messages_or_bytes() {
        let mut log = EventLog::starting_at(0);
        for number in 0..LOG_BATCHES_MAX as u64 + 5 {
            log.push(run(number, 1, 1));
        }
        assert_eq!(ends(&log)[0], 6);
        let next = log.next_sequence();
        log.push(run(next, 1, LOG_BYTES_MAX));
        assert_eq!((ends(&log), log.bytes), (vec![next + 1], LOG_BYTES_MAX));
        log.push(run(next + 1, 1, LOG_BYTES_MAX + 1));
        assert_eq!((log.from(0), log.bytes), (None, 0));
    }
}
