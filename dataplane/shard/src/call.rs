//! Asking another shard: a job goes to its mailbox, the answer comes back through ours.

use crate::environment::{Environment, Post};
use crate::local::Local;
use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

struct CallAnswer<R> {
    value: Option<R>,
    waker: Option<Waker>,
}

/// A question on its way; resolves to the answer, or to `None` if the shard that was asked is gone.
#[must_use = "the answer comes when the call is awaited"]
pub struct Call<E: Environment, R: 'static> {
    environment: E,
    answer: Rc<RefCell<CallAnswer<R>>>,
    name: Local<RefCell<CallAnswer<R>>>,
    posted: bool,
}

impl<E: Environment, R: Send + 'static> Call<E, R> {
    pub(crate) fn post(
        environment: &E,
        to: &E::Mailbox,
        work: impl FnOnce(&E) -> R + Send + 'static,
    ) -> Self {
        let answer = Rc::new(RefCell::new(CallAnswer { value: None, waker: None }));
        let name = environment.keep(answer.clone());
        let back = environment.mailbox().clone();
        let posted = to.post(Box::new(move |theirs: &E| {
            let value = work(theirs);
            back.post(Box::new(move |ours: &E| {
                if let Some(answer) = ours.local(name) {
                    let mut answer = answer.borrow_mut();
                    answer.value = Some(value);
                    if let Some(waker) = answer.waker.take() {
                        waker.wake();
                    }
                }
            }));
        }));
        Self { environment: environment.clone(), answer, name, posted }
    }
}

impl<E: Environment, R> Future for Call<E, R> {
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

impl<E: Environment, R> Drop for Call<E, R> {
    fn drop(&mut self) {
        self.environment.give_up(self.name);
    }
}
