//! How many tasks of a shard can run now: the driver sleeps only when there is none.
//!
//! While the driver sleeps in the shard's reactor nothing else runs, and executors do not tell
//! whether anything wants to. Every task is therefore woken through a waker of ours, which counts.
//! The invariant: a task is counted from its wake-up until it is polled or dropped, once.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Wake, Waker};

/// The tasks of one shard that can run.
///
/// All of them are woken on the shard's thread; the count is atomic because wakers may be sent.
#[derive(Clone, Debug, Default)]
pub(crate) struct WakeCount {
    count: Arc<AtomicUsize>,
}

impl WakeCount {
    /// How many tasks can run.
    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// The same task, counted; a new task can run at once.
    pub(crate) fn counted<T: Future<Output = ()>>(
        &self,
        task: T,
    ) -> impl Future<Output = ()> + use<T> {
        self.count.fetch_add(1, Ordering::Relaxed);
        let mut place = TaskCount { count: self.count.clone(), waker: None };
        async move {
            let mut task = pin!(task);
            poll_fn(|context| {
                let waker = place.begin(context.waker());
                task.as_mut().poll(&mut Context::from_waker(waker))
            })
            .await;
        }
    }
}

/// What is counted of one task.
struct TaskCount {
    count: Arc<AtomicUsize>,
    /// Nothing before the first poll: until then the task counts as runnable.
    waker: Option<(Arc<CountingWaker>, Waker)>,
}

struct CountingWaker {
    inner: Waker,
    scheduled: AtomicBool,
    count: Arc<AtomicUsize>,
}

impl TaskCount {
    /// The task is about to be polled: from now on a wake-up counts again.
    fn begin(&mut self, inner: &Waker) -> &Waker {
        self.leave(false);
        let known = self.waker.take();
        let known = known.filter(|(waker, _)| waker.inner.will_wake(inner));
        let made = || {
            let waker = Arc::new(CountingWaker {
                inner: inner.clone(),
                scheduled: AtomicBool::new(false),
                count: self.count.clone(),
            });
            (waker.clone(), Waker::from(waker))
        };
        &self.waker.insert(known.unwrap_or_else(made)).1
    }

    /// The task is no longer one that can run. `scheduled` is what its wakers see: true keeps them
    /// from counting.
    fn leave(&mut self, scheduled: bool) {
        let waker = self.waker.as_ref();
        let counted =
            waker.is_none_or(|(waker, _)| waker.scheduled.swap(scheduled, Ordering::Relaxed));
        if counted {
            self.count.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Drop for TaskCount {
    fn drop(&mut self) {
        self.leave(true);
    }
}

impl Wake for CountingWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.scheduled.swap(true, Ordering::Relaxed) {
            self.count.fetch_add(1, Ordering::Relaxed);
        }
        self.inner.wake_by_ref();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::pin::Pin;
    use std::rc::Rc;
    use std::task::Poll;

    type Task = Pin<Box<dyn Future<Output = ()>>>;

    /// A task that gives its waker away at each poll, and ends at the third.
    fn task(runnable: &WakeCount) -> (Task, Rc<RefCell<Vec<Waker>>>) {
        let given = Rc::new(RefCell::new(Vec::new()));
        let wakers = given.clone();
        let future = runnable.counted(poll_fn(move |context| {
            wakers.borrow_mut().push(context.waker().clone());
            if wakers.borrow().len() == 3 { Poll::Ready(()) } else { Poll::Pending }
        }));
        (Box::pin(future), given)
    }

    fn poll(task: &mut Task) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        task.as_mut().poll(&mut context).is_ready()
    }

    #[test]
    fn a_task_counts_from_its_wake_up_until_it_runs() {
        let runnable = WakeCount::default();
        assert!(runnable.count() == 0);
        let (mut task, wakers) = task(&runnable);
        assert!(runnable.count() == 1, "a new task can run");
        assert!(!poll(&mut task) && runnable.count() == 0);
        wakers.borrow()[0].wake_by_ref();
        wakers.borrow()[0].wake_by_ref();
        assert!(runnable.count() == 1);
        assert!(!poll(&mut task) && runnable.count() == 0, "two wake-ups are one");
        wakers.borrow()[1].wake_by_ref();
        assert!(poll(&mut task));
        wakers.borrow()[2].wake_by_ref();
        assert!(runnable.count() == 0, "a task that ended cannot run");
    }

    #[test]
    fn a_task_that_wakes_itself_can_run_again() {
        let runnable = WakeCount::default();
        let mut polls = 0;
        let mut task = Box::pin(runnable.counted(poll_fn(move |context| {
            polls += 1;
            context.waker().wake_by_ref();
            if polls == 2 { Poll::Ready(()) } else { Poll::Pending }
        }))) as Task;
        assert!(!poll(&mut task) && runnable.count() == 1);
        assert!(poll(&mut task) && runnable.count() == 0);
    }

    #[test]
    fn a_dropped_task_counts_no_more() {
        let runnable = WakeCount::default();
        drop(task(&runnable).0);
        assert!(runnable.count() == 0, "before its first poll");
        let (mut task, wakers) = task(&runnable);
        poll(&mut task);
        wakers.borrow()[0].wake_by_ref();
        drop(task);
        assert!(runnable.count() == 0);
        wakers.borrow()[0].wake_by_ref();
        assert!(runnable.count() == 0, "nor when its waker is used late");
    }
}
