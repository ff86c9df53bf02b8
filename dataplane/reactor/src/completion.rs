//! The future of one operation.

use crate::operation::{Finished, Operation};
use crate::reactor::Reactor;
use crate::submitted::Submitted;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

/// Resolves when the kernel has finished an operation. Dropping it leaves the operation and its
/// memory to the reactor.
#[derive(Debug)]
pub struct Completion {
    reactor: Rc<Reactor>,
    slot: Option<u32>,
    finished: Option<Finished>,
}

impl Completion {
    /// Begins an operation; a ring hands it to the kernel with the next [`Reactor::flush`].
    pub fn begin(reactor: &Rc<Reactor>, operation: Operation) -> Self {
        let (slot, finished) = match reactor.submit(operation) {
            Submitted::Flying(slot) => (Some(slot), None),
            Submitted::Finished(finished) => (None, Some(finished)),
        };
        Self { reactor: reactor.clone(), slot, finished }
    }
}

impl Future for Completion {
    type Output = Finished;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Finished> {
        if let Some(finished) = self.finished.take() {
            return Poll::Ready(finished);
        }
        let Some(slot) = self.slot else {
            return Poll::Pending;
        };
        match self.reactor.poll_slot(slot, context.waker()) {
            Some(finished) => {
                self.slot = None;
                Poll::Ready(finished)
            }
            None => Poll::Pending,
        }
    }
}

impl Drop for Completion {
    fn drop(&mut self) {
        if let Some(slot) = self.slot {
            self.reactor.abandon(slot);
        }
        if let Some(finished) = self.finished.take() {
            finished.discard();
        }
    }
}
