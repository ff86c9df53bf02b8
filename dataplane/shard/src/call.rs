//! Asking another shard: a job goes to its mailbox, the answer comes back through ours.

use crate::environment::{Environment, Post};
use crate::local::Local;
use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

struct CallAnswer<R> {
    /// `Some(None)` if who was to answer is gone.
    value: Option<Option<R>>,
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

/// The way back of a call's answer. Dropping it says that there is none.
pub struct CallReply<E: Environment, R: Send + 'static> {
    back: E::Mailbox,
    name: Local<RefCell<CallAnswer<R>>>,
    is_sent: bool,
}

impl<E: Environment, R: Send + 'static> CallReply<E, R> {
    /// Answers.
    pub fn send(mut self, value: R) {
        self.post(Some(value));
    }

    fn post(&mut self, value: Option<R>) {
        if std::mem::replace(&mut self.is_sent, true) {
            return;
        }
        let name = self.name;
        self.back.post(Box::new(move |ours: &E| {
            if let Some(answer) = ours.local(name) {
                let mut answer = answer.borrow_mut();
                answer.value = Some(value);
                if let Some(waker) = answer.waker.take() {
                    waker.wake();
                }
            }
        }));
    }
}

impl<E: Environment, R: Send + 'static> Drop for CallReply<E, R> {
    fn drop(&mut self) {
        self.post(None);
    }
}

impl<E: Environment, R: Send + 'static> Call<E, R> {
    pub(crate) fn post(
        environment: &E,
        to: &E::Mailbox,
        work: impl FnOnce(&E, CallReply<E, R>) + Send + 'static,
    ) -> Self {
        let answer = Rc::new(RefCell::new(CallAnswer { value: None, waker: None }));
        let name = environment.keep(answer.clone());
        let reply = CallReply { back: environment.mailbox().clone(), name, is_sent: false };
        let posted = to.post(Box::new(move |theirs: &E| work(theirs, reply)));
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
            Some(value) => Poll::Ready(value),
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
