//! The future of one operation.

use crate::operation::Finished;
use crate::ring::Ring;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

/// Resolves when the kernel has finished an operation. Dropping it leaves the operation and its memory to the ring.
#[derive(Debug)]
pub struct Completion {
    ring: Rc<Ring>,
    slot: Option<u32>,
    refused: Option<Finished>,
}

impl Completion {
    pub(crate) fn flying(ring: Rc<Ring>, slot: u32) -> Self {
        Self {
            ring,
            slot: Some(slot),
            refused: None,
        }
    }

    pub(crate) fn refused(ring: Rc<Ring>, finished: Finished) -> Self {
        Self {
            ring,
            slot: None,
            refused: Some(finished),
        }
    }
}

impl Future for Completion {
    type Output = Finished;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Finished> {
        if let Some(finished) = self.refused.take() {
            return Poll::Ready(finished);
        }
        let Some(slot) = self.slot else {
            return Poll::Pending;
        };
        match self.ring.poll_slot(slot, context.waker()) {
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
            self.ring.abandon(slot);
        }
    }
}
