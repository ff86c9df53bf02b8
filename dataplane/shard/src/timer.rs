//! Timers of a shard: checked by its driver each turn, so a busy shard needs no system call for
//! them.

use crate::limits::STALE_TIMERS_MAX;
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
        Timer { timers: self.clone(), deadline, number: None }
    }

    /// Wakes all timers whose deadline has come.
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

    /// The next deadline that a timer waits for.
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

    /// A dropped timer waits no more. Its heap entry would stay until its deadline, so the heap is
    /// cleaned once most of it is such entries: its size follows the timers that wait, not the rate
    /// of calls.
    fn forget(&self, number: u64) {
        let waker = self.waiting.borrow_mut().remove(&number);
        let waiting = self.waiting.borrow();
        let mut heap = self.heap.borrow_mut();
        if heap.len() > 2 * waiting.len() + STALE_TIMERS_MAX {
            heap.retain(|Reverse((_, number))| waiting.contains_key(number));
        }
        drop((heap, waiting));
        // Last, because dropping a waker may drop a task with timers of its own.
        drop(waker);
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
                timers.heap.borrow_mut().push(Reverse((self.deadline, number)));
                timers.waiting.borrow_mut().insert(number, context.waker().clone());
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
            self.timers.forget(number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(timers: &Rc<Timers>, deadline: Duration) -> Timer {
        let mut timer = timers.until(deadline);
        let mut context = Context::from_waker(Waker::noop());
        assert!(Pin::new(&mut timer).poll(&mut context).is_pending());
        timer
    }

    #[test]
    fn dropped_timers_leave_the_heap_and_waiting_ones_still_fire() {
        let timers = Rc::new(Timers::default());
        let kept = [1, 2, 3].map(|seconds| start(&timers, Duration::from_secs(seconds)));
        for _ in 0..10_000 {
            drop(start(&timers, Duration::from_secs(30)));
        }
        assert!(timers.heap.borrow().len() <= 2 * kept.len() + STALE_TIMERS_MAX);
        assert_eq!(timers.next_deadline(), Some(Duration::from_secs(1)));
        assert_eq!(timers.fire(Duration::from_secs(3)), kept.len());
    }
}
