//! Timers of a shard: checked by its driver each turn, so a busy shard needs no system call for them.

use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// Deadlines waiting on one shard.
#[derive(Default)]
pub(crate) struct Timers {
    heap: RefCell<BinaryHeap<Reverse<(Duration, u64)>>>,
    waiting: RefCell<std::collections::HashMap<u64, Waker>>,
    next: Cell<u64>,
}

impl Timers {
    /// A future that resolves when the driver's clock reaches `deadline`.
    pub(crate) fn until(self: &Rc<Self>, deadline: Duration) -> Timer {
        Timer {
            timers: self.clone(),
            deadline,
            number: None,
        }
    }

    /// Wakes everybody whose deadline has come.
    pub(crate) fn fire(&self, now: Duration) -> usize {
        let mut fired = 0;
        loop {
            let due = match self.heap.borrow().peek() {
                Some(Reverse((deadline, number))) if *deadline <= now => *number,
                _ => return fired,
            };
            self.heap.borrow_mut().pop();
            if let Some(waker) = self.waiting.borrow_mut().remove(&due) {
                waker.wake();
                fired += 1;
            }
        }
    }

    /// The next deadline anybody waits for.
    pub(crate) fn next_deadline(&self) -> Option<Duration> {
        let mut heap = self.heap.borrow_mut();
        while let Some(Reverse((deadline, number))) = heap.peek() {
            if self.waiting.borrow().contains_key(number) {
                return Some(*deadline);
            }
            heap.pop();
        }
        None
    }
}

/// Resolves at its deadline.
pub(crate) struct Timer {
    timers: Rc<Timers>,
    deadline: Duration,
    number: Option<u64>,
}

impl Future for Timer {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let timers = self.timers.clone();
        match self.number {
            None => {
                let number = timers.next.get();
                timers.next.set(number + 1);
                timers
                    .heap
                    .borrow_mut()
                    .push(Reverse((self.deadline, number)));
                timers
                    .waiting
                    .borrow_mut()
                    .insert(number, context.waker().clone());
                self.number = Some(number);
                Poll::Pending
            }
            Some(number) => match timers.waiting.borrow_mut().get_mut(&number) {
                Some(waker) => {
                    waker.clone_from(context.waker());
                    Poll::Pending
                }
                None => Poll::Ready(()),
            },
        }
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            self.timers.waiting.borrow_mut().remove(&number);
        }
    }
}
