//! Tasks of one shard that wait for a condition; the task that changes it wakes them all.

use std::cell::RefCell;
use std::future::poll_fn;
use std::task::{Poll, Waker};

/// Those who wait.
#[derive(Debug, Default)]
pub struct WakerList(RefCell<Vec<Waker>>);

impl WakerList {
    /// Resolves when `is_met`; looks at it now and after each [`WakerList::raise`].
    pub async fn wait_until(&self, is_met: impl Fn() -> bool) {
        poll_fn(|context| {
            if is_met() {
                return Poll::Ready(());
            }
            let mut waiting = self.0.borrow_mut();
            if !waiting.iter().any(|waker| waker.will_wake(context.waker())) {
                waiting.push(context.waker().clone());
            }
            Poll::Pending
        })
        .await;
    }

    /// Has all who wait look again.
    pub fn raise(&self) {
        let waiting = std::mem::take(&mut *self.0.borrow_mut());
        waiting.into_iter().for_each(Waker::wake);
    }
}
