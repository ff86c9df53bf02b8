//! Waiting on one shard for something to change. Invariant: a wait looks again after each
//! change, so no change is missed.

use std::cell::RefCell;
use std::future::poll_fn;
use std::task::{Poll, Waker};

/// Notified after each change that something may wait for.
#[derive(Debug, Default)]
pub(super) struct ChangeNotify(RefCell<Vec<Waker>>);

impl ChangeNotify {
    pub(super) fn notify(&self) {
        self.0.take().into_iter().for_each(Waker::wake);
    }

    /// Waits until `look` finds something.
    pub(super) async fn until<T>(&self, mut look: impl FnMut() -> Option<T>) -> T {
        poll_fn(|context| {
            if let Some(found) = look() {
                return Poll::Ready(found);
            }
            let mut waiting = self.0.borrow_mut();
            if !waiting.iter().any(|waker| waker.will_wake(context.waker())) {
                waiting.push(context.waker().clone());
            }
            Poll::Pending
        })
        .await
    }
}
