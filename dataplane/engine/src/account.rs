//! What a batch has moved, by the route and NIC it went over: slices of one batch may take several.
//! Invariant: bytes are noted before their request hears of them, so that whoever waited for the batch finds them all.

use crate::counters::Counters;
use crate::request::Direction;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The accounts of one batch. None is opened for a route that counts for itself.
#[derive(Debug, Default)]
pub(crate) struct Accounts(Mutex<Vec<Account>>);

/// What went over one NIC.
#[derive(Clone, Debug)]
pub(crate) struct Account {
    /// Of the route and NIC.
    pub(crate) counters: Arc<Counters>,
    pub(crate) read: Moved,
    pub(crate) written: Moved,
    /// Nanoseconds of its exchanges that the connections do not explain.
    pub(crate) peer_ns: u64,
}

/// What moved in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Moved {
    /// Requests whose first byte is among it.
    pub(crate) operations: u64,
    pub(crate) bytes: u64,
}

impl Accounts {
    /// Notes what is in place.
    pub(crate) fn landed(&self, counters: &Arc<Counters>, direction: Direction, moved: Moved) {
        let mut all = self.lock();
        let account = account_of(&mut all, counters);
        let sum = match direction {
            Direction::Read => &mut account.read,
            Direction::Write => &mut account.written,
        };
        sum.operations += moved.operations;
        sum.bytes += moved.bytes;
    }

    /// Notes what of an exchange was the peer's own time.
    pub(crate) fn waited_for_peer(&self, counters: &Arc<Counters>, nanoseconds: u64) {
        account_of(&mut self.lock(), counters).peer_ns += nanoseconds;
    }

    /// All accounts, which begin anew.
    pub(crate) fn take(&self) -> Vec<Account> {
        std::mem::take(&mut *self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Account>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// There are as many as the peer has ways, which are few.
fn account_of<'a>(all: &'a mut Vec<Account>, counters: &Arc<Counters>) -> &'a mut Account {
    let known = all
        .iter()
        .position(|account| Arc::ptr_eq(&account.counters, counters));
    let index = known.unwrap_or(all.len());
    if known.is_none() {
        all.push(Account {
            counters: counters.clone(),
            read: Moved::default(),
            written: Moved::default(),
            peer_ns: 0,
        });
    }
    &mut all[index]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::Batch;
    use crate::observer::Route;
    use crate::slice::{Piece, Slice};

    fn slice(batch: &Arc<Batch>, request: u32, pieces: std::ops::Range<u64>) -> Slice {
        let piece = |number| Piece {
            request,
            local: 4096 * number,
            remote: 4096 * number,
            bytes: 100,
            is_first: number == 0,
        };
        Slice::new(Direction::Write, pieces.map(piece).collect(), batch.clone())
    }

    #[test]
    fn slices_of_one_batch_are_accounted_to_the_nics_they_went_over() {
        let nic = |name| Arc::new(Counters::new(Route::Tcp, name));
        let (one, other) = (nic("eth0"), nic("eth1"));
        let pieces = [6].into_iter();
        let batch = Arc::new(Batch::new(pieces, Vec::new(), None, None));
        slice(&batch, 0, 0..2).complete(&one);
        slice(&batch, 0, 2..5).complete(&other);
        batch.accounts().waited_for_peer(&other, 7);
        slice(&batch, 0, 5..6).complete(&one);
        assert!(batch.is_over());
        let seen = |account: &Account| {
            let Moved { operations, bytes } = account.written;
            (
                account.counters.device().to_owned(),
                operations,
                bytes,
                account.peer_ns,
            )
        };
        let accounts = batch.accounts().take();
        let expected = [
            ("eth0".to_owned(), 1, 300, 0),
            ("eth1".to_owned(), 0, 300, 7),
        ];
        assert_eq!(accounts.iter().map(seen).collect::<Vec<_>>(), expected);
        assert!(
            accounts
                .iter()
                .all(|account| account.read == Moved::default())
        );
        assert!(batch.accounts().take().is_empty());
    }
}
