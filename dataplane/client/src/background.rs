//! Calls that wait, away from the threads of an async runtime. Invariant: what a call owns is
//! dropped when it has ended, or before it begins.

use crate::trace::taken_along;
use blocking::{Task, unblock};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// A call that runs on a thread of its own; a future of its result. It begins at once, whether it
/// is polled or not.
///
/// Dropping it gives the call up: one that has not begun does not begin, one that has ends by its
/// own deadlines, and its result is dropped. At most 500 calls of a process run at the same time
/// (`BLOCKING_MAX_THREADS`); later ones wait for their turn. A panic of the call is the panic of
/// whatever awaits it.
#[derive(Debug)]
#[must_use = "dropping it gives the call up"]
pub struct PendingCall<T>(Task<T>);

impl<T: Send + 'static> PendingCall<T> {
    pub(crate) fn start(work: impl FnOnce() -> T + Send + 'static) -> Self {
        Self(unblock(taken_along(work)))
    }

    /// Lets the call go on without a future: its result is dropped when it ends.
    pub fn detach(self) {
        self.0.detach();
    }
}

impl<T> Future for PendingCall<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        Pin::new(&mut self.0).poll(context)
    }
}
