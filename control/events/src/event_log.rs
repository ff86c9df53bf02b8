//! The last batches with their sequence numbers: what subscribers are sent and consumers replay.
//! Invariant: sequence numbers rise; what is kept is bounded in batches and in bytes, whatever
//! consumers do.

use crate::limits::{LOG_BATCHES_MAX, LOG_BYTES_MAX};
use std::collections::VecDeque;
use std::rc::Rc;

/// A batch in its wire form.
pub(crate) type Payload = Rc<[u8]>;

/// The last batches.
#[derive(Debug)]
pub(crate) struct EventLog {
    batches: VecDeque<(u64, Payload)>,
    bytes: usize,
    next: u64,
}

impl EventLog {
    /// A log whose first batch has this number.
    pub(crate) fn starting_at(first: u64) -> Self {
        Self { batches: VecDeque::new(), bytes: 0, next: first }
    }

    /// Sequence number of the next batch.
    pub(crate) fn next_sequence(&self) -> u64 {
        self.next
    }

    /// Leaves a gap that consumers see: events were lost here.
    pub(crate) fn skip(&mut self, lost: u64) {
        self.next += lost;
    }

    /// Adds a batch, and drops the oldest beyond the bounds.
    pub(crate) fn push(&mut self, payload: Payload) {
        self.bytes += payload.len();
        self.batches.push_back((self.next, payload));
        self.next += 1;
        while self.batches.len() > LOG_BATCHES_MAX || self.bytes > LOG_BYTES_MAX {
            let Some((_, oldest)) = self.batches.pop_front() else {
                return;
            };
            self.bytes -= oldest.len();
        }
    }

    /// The first batch from a sequence number on.
    pub(crate) fn from(&self, sequence: u64) -> Option<(u64, Payload)> {
        let at = self.batches.partition_point(|(known, _)| *known < sequence);
        self.batches.get(at).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_come_in_order_from_any_number_and_gaps_are_passed() {
        let mut log = EventLog::starting_at(0);
        log.push(b"a".as_slice().into());
        log.skip(3);
        log.push(b"b".as_slice().into());
        assert_eq!(log.from(0), Some((0, b"a".as_slice().into())));
        assert_eq!(log.from(1), Some((4, b"b".as_slice().into())));
        assert_eq!(log.from(5), None);
        assert_eq!(log.next_sequence(), 5);
    }

    #[test]
    fn the_oldest_go_when_there_are_too_many_batches_or_bytes() {
        let mut log = EventLog::starting_at(0);
        for _ in 0..LOG_BATCHES_MAX + 5 {
            log.push([0; 1].as_slice().into());
        }
        assert_eq!(log.from(0).unwrap().0, 5);
        log.push(vec![0; LOG_BYTES_MAX].into());
        assert_eq!(log.from(0).unwrap().0, LOG_BATCHES_MAX as u64 + 5);
        log.push(vec![0; LOG_BYTES_MAX + 1].into());
        assert_eq!((log.from(0), log.bytes), (None, 0));
    }
}
