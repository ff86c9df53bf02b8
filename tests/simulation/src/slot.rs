//! Where the simulated kernel leaves the result of an operation. Invariant: a result is given once
//! and taken once.

use std::cell::RefCell;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

struct State<T> {
    result: Option<T>,
    waker: Option<Waker>,
}

/// The kernel's or the waiter's side of one operation.
pub(crate) struct Slot<T>(Rc<RefCell<State<T>>>);

impl<T> Clone for Slot<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> Default for Slot<T> {
    fn default() -> Self {
        Self(Rc::new(RefCell::new(State { result: None, waker: None })))
    }
}

impl<T> Slot<T> {
    /// Gives the result and wakes the waiting task.
    pub(crate) fn give(&self, result: T) {
        let mut state = self.0.borrow_mut();
        state.result = Some(result);
        if let Some(waker) = state.waker.take() {
            waker.wake();
        }
    }

    /// The result, if it was given and not taken.
    pub(crate) fn take(&self) -> Option<T> {
        self.0.borrow_mut().result.take()
    }

    pub(crate) fn poll(&self, context: &Context<'_>) -> Poll<T> {
        match self.take() {
            Some(result) => Poll::Ready(result),
            None => {
                self.0.borrow_mut().waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }

    /// Whether the other side still has it.
    pub(crate) fn is_shared(&self) -> bool {
        Rc::strong_count(&self.0) > 1
    }
}
