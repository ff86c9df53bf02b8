//! What an owner keeps for one reader: bytes that were staged until the reader has read them over
//! its rails.
//! Invariant: what a ticket keeps stays as it is until the ticket is returned, its time is over, or
//! the reader's queue pairs are down, and no longer.

use crate::limits::{TICKET_LIFE, TICKETS_MAX};
use perigee_shard::Guard;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The tickets of a reader. Dropped with the right to its queue pairs.
#[derive(Debug)]
pub(crate) struct TicketBook {
    entries: Mutex<TicketEntries>,
}

#[derive(Debug)]
struct TicketEntries {
    /// The last number that was given out. No other book has it: a ticket that is returned late
    /// must not be taken for another one.
    last: u64,
    /// By number, which is also the order in which they end.
    kept: BTreeMap<u64, KeptBytes>,
}

#[derive(Debug)]
struct KeptBytes {
    until: Duration,
    _kept: Guard,
}

impl TicketBook {
    /// The book of a connection, by the number of its lease.
    pub(crate) fn of_lease(lease: u64) -> Self {
        let entries = TicketEntries { last: lease << 32, kept: BTreeMap::new() };
        Self { entries: Mutex::new(entries) }
    }

    /// A ticket for bytes that are kept from `now` on; `None` while the reader has too many.
    pub(crate) fn issue(&self, kept: Guard, now: Duration) -> Option<u64> {
        self.end_old(now);
        let mut entries = self.entries();
        if entries.kept.len() >= TICKETS_MAX {
            return None;
        }
        entries.last += 1;
        let number = entries.last;
        let until = now + TICKET_LIFE;
        entries.kept.insert(number, KeptBytes { until, _kept: kept });
        Some(number)
    }

    /// Gives back what these tickets keep; numbers that are not known any more mean nothing.
    pub(crate) fn take_back(&self, numbers: &[u64]) {
        let mut entries = self.entries();
        let gone: Vec<_> =
            numbers.iter().filter_map(|number| entries.kept.remove(number)).collect();
        drop(entries);
        // Memory is given back without the lock.
        drop(gone);
    }

    /// Gives back what was kept for long enough.
    pub(crate) fn end_old(&self, now: Duration) {
        let mut entries = self.entries();
        let mut gone = Vec::new();
        while let Some(first) = entries.kept.first_entry()
            && first.get().until <= now
        {
            gone.push(first.remove());
        }
        drop(entries);
        drop(gone);
    }

    fn entries(&self) -> MutexGuard<'_, TicketEntries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    const NOW: Duration = Duration::from_secs(50);

    fn bytes() -> (Guard, Arc<()>) {
        let bytes = Arc::new(());
        (bytes.clone(), bytes)
    }

    fn is_kept(bytes: &Arc<()>) -> bool {
        Arc::strong_count(bytes) > 1
    }

    #[test]
    fn bytes_are_kept_until_their_ticket_is_returned() {
        let book = TicketBook::of_lease(1);
        let ((first, one), (second, other)) = (bytes(), bytes());
        let first = book.issue(first, NOW).unwrap();
        let second = book.issue(second, NOW).unwrap();
        book.take_back(&[second, second + 1]);
        assert!(is_kept(&one) && !is_kept(&other));
        let next = TicketBook::of_lease(2);
        let later = next.issue(bytes().0, NOW).unwrap();
        book.take_back(&[later]);
        assert!(is_kept(&one), "no two connections have one number");
        book.take_back(&[first]);
        assert!(!is_kept(&one));
    }

    #[test]
    fn a_ticket_that_is_not_returned_ends_by_itself_and_not_before() {
        let book = TicketBook::of_lease(1);
        let ((first, one), (second, other)) = (bytes(), bytes());
        book.issue(first, NOW).unwrap();
        book.issue(second, NOW + Duration::from_secs(1)).unwrap();
        book.end_old(NOW + TICKET_LIFE - Duration::from_nanos(1));
        assert!(is_kept(&one) && is_kept(&other));
        book.end_old(NOW + TICKET_LIFE);
        assert!(!is_kept(&one) && is_kept(&other));
        let (third, another) = bytes();
        book.issue(third, NOW + 2 * TICKET_LIFE).unwrap();
        assert!(!is_kept(&other) && is_kept(&another), "each ticket ends those before it");
        drop(book);
        assert!(!is_kept(&another));
    }

    #[test]
    fn a_reader_has_a_bounded_number_of_tickets() {
        let book = TicketBook::of_lease(1);
        for _ in 0..TICKETS_MAX {
            assert!(book.issue(bytes().0, NOW).is_some());
        }
        assert!(book.issue(bytes().0, NOW).is_none());
        assert!(book.issue(bytes().0, NOW + TICKET_LIFE).is_some());
    }
}
