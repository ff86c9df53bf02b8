//! Asking another shard or thread: the question goes there, the answer comes back through our
//! mailbox.

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
    /// Whether no value will come any more.
    is_dropped: bool,
}

type AnswerName<R> = Local<RefCell<CallAnswer<R>>>;

/// A question on its way; resolves to the answer, or to `None` if whatever was asked is gone.
#[must_use = "the answer comes when the call is awaited"]
pub struct Call<E: Environment, R: Send + 'static> {
    environment: E,
    answer: Rc<RefCell<CallAnswer<R>>>,
    name: AnswerName<R>,
}

/// The way back for an answer, from any thread. Dropped without one, the call resolves to `None`.
#[must_use = "its call waits for an answer"]
pub struct CallReply<E: Environment, R: Send + 'static> {
    back: Option<E::Mailbox>,
    name: AnswerName<R>,
}

impl<E: Environment, R: Send + 'static> Call<E, R> {
    pub(crate) fn new(environment: &E) -> (Self, CallReply<E, R>) {
        let answer = CallAnswer { value: None, waker: None, is_dropped: false };
        let answer = Rc::new(RefCell::new(answer));
        let name = environment.keep(answer.clone());
        let back = Some(environment.mailbox().clone());
        (Self { environment: environment.clone(), answer, name }, CallReply { back, name })
    }

    pub(crate) fn post(
        environment: &E,
        to: &E::Mailbox,
        work: impl FnOnce(&E) -> R + Send + 'static,
    ) -> Self {
        let (call, reply) = Self::new(environment);
        to.post(Box::new(move |theirs: &E| reply.give(work(theirs))));
        call
    }
}

impl<E: Environment, R: Send + 'static> CallReply<E, R> {
    /// Answers.
    pub fn give(mut self, value: R) {
        self.send(Some(value));
    }

    fn send(&mut self, value: Option<R>) {
        let Some(back) = self.back.take() else { return };
        let name = self.name;
        back.post(Box::new(move |ours: &E| {
            if let Some(answer) = ours.local(name) {
                let mut answer = answer.borrow_mut();
                answer.is_dropped = value.is_none();
                answer.value = value;
                if let Some(waker) = answer.waker.take() {
                    waker.wake();
                }
            }
        }));
    }
}

impl<E: Environment, R: Send + 'static> Drop for CallReply<E, R> {
    fn drop(&mut self) {
        self.send(None);
    }
}

impl<E: Environment, R: Send + 'static> Future for Call<E, R> {
    type Output = Option<R>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<R>> {
        let mut answer = self.answer.borrow_mut();
        match answer.value.take() {
            Some(value) => Poll::Ready(Some(value)),
            None if answer.is_dropped => Poll::Ready(None),
            None => {
                answer.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl<E: Environment, R: Send + 'static> Drop for Call<E, R> {
    fn drop(&mut self) {
        self.environment.give_up(self.name);
    }
}
