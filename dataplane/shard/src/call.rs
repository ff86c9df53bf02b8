//! Asking another shard: a job goes to its mailbox, the answer comes back through ours.

use crate::local::Local;
use crate::mailbox::Mailbox;
use crate::stream::ShardEnvironment;
use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

struct Answer<R> {
    value: Option<R>,
    waker: Option<Waker>,
}

/// A question on its way; resolves to the answer, or to `None` if the shard that was asked is gone.
#[must_use = "the answer comes to whoever awaits the call"]
pub struct Call<R: 'static> {
    environment: ShardEnvironment,
    answer: Rc<RefCell<Answer<R>>>,
    name: Local<RefCell<Answer<R>>>,
    posted: bool,
}

impl ShardEnvironment {
    /// Runs `work` on the shard of `to`. The job is on its way before the call is first polled, so several shards can
    /// work at once.
    pub fn call<R: Send + 'static>(
        &self,
        to: &Mailbox,
        work: impl FnOnce(&ShardEnvironment) -> R + Send + 'static,
    ) -> Call<R> {
        let answer = Rc::new(RefCell::new(Answer {
            value: None,
            waker: None,
        }));
        let name = self.keep(answer.clone());
        let back = self.mailbox().clone();
        let posted = to.post(Box::new(move |theirs: &ShardEnvironment| {
            let value = work(theirs);
            back.post(Box::new(move |ours: &ShardEnvironment| {
                if let Some(answer) = ours.local(name) {
                    let mut answer = answer.borrow_mut();
                    answer.value = Some(value);
                    if let Some(waker) = answer.waker.take() {
                        waker.wake();
                    }
                }
            }));
        }));
        Call {
            environment: self.clone(),
            answer,
            name,
            posted,
        }
    }
}

impl<R> Future for Call<R> {
    type Output = Option<R>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<R>> {
        if !self.posted {
            return Poll::Ready(None);
        }
        let mut answer = self.answer.borrow_mut();
        match answer.value.take() {
            Some(value) => Poll::Ready(Some(value)),
            None => {
                answer.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl<R> Drop for Call<R> {
    fn drop(&mut self) {
        self.environment.give_up(self.name);
    }
}
