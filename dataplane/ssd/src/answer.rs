//! The answer of a disk to a call from any thread or shard. Invariant: it comes once, or the
//! caller learns that none will come.

use perigee_shard::{Environment, at_most, poll_interruption, wait_step};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unanswered {
    /// The disk takes longer. What was asked may still be done.
    #[error("The disk has not answered within {0:?}")]
    Late(Duration),
    /// The disk was closed, or its shard has ended.
    #[error("The disk is closed")]
    Gone,
    /// The caller of the waiting thread breaks off. What was asked may still be done.
    #[error("The caller has broken off")]
    Canceled,
}

type AnswerListener<T> = Box<dyn FnOnce(Option<T>) + Send>;

enum AnswerState<T> {
    Waiting(Option<AnswerListener<T>>),
    Given(T),
    /// Nothing comes any more, or it was taken.
    Over,
}

struct SharedAnswer<T> {
    state: Mutex<AnswerState<T>>,
    changed: Condvar,
}

/// An answer on its way. Dropping it changes nothing of what was asked.
#[must_use = "a disk says here what became of a call"]
pub struct Answer<T>(Arc<SharedAnswer<T>>);

/// The side of the disk. Dropped without a value, it says that none will come.
pub(crate) struct AnswerPromise<T>(Option<Arc<SharedAnswer<T>>>);

impl<T> std::fmt::Debug for Answer<T> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Answer")
    }
}

pub(crate) fn answer<T>() -> (AnswerPromise<T>, Answer<T>) {
    let state = Mutex::new(AnswerState::Waiting(None));
    let shared = Arc::new(SharedAnswer { state, changed: Condvar::new() });
    (AnswerPromise(Some(shared.clone())), Answer(shared))
}

impl<T: Send + 'static> Answer<T> {
    /// Blocks the calling thread, which is no shard's.
    ///
    /// # Errors
    /// There is no answer within `limit`, none comes at all, or the thread's caller breaks off.
    pub fn wait(self, limit: Duration) -> Result<T, Unanswered> {
        let end = Instant::now() + limit;
        let mut state = self.0.lock();
        loop {
            if !matches!(&*state, AnswerState::Waiting(_)) {
                return take(&mut state).ok_or(Unanswered::Gone);
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Unanswered::Late(limit));
            }
            if poll_interruption() {
                return Err(Unanswered::Canceled);
            }
            let waited = self.0.changed.wait_timeout(state, wait_step(left));
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Whether [`Answer::wait`] would return at once; blocks the calling thread up to `limit` for
    /// that.
    pub fn is_here(&self, limit: Duration) -> bool {
        let is_waiting = |state: &mut AnswerState<T>| matches!(state, AnswerState::Waiting(_));
        let waited = self.0.changed.wait_timeout_while(self.0.lock(), limit, is_waiting);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner).0;
        !is_waiting(&mut state)
    }

    /// Waits on a shard.
    ///
    /// # Errors
    /// As [`Answer::wait`].
    pub async fn within<E: Environment>(
        self,
        environment: &E,
        limit: Duration,
    ) -> Result<T, Unanswered> {
        let (call, reply) = environment.ask::<Option<T>>();
        {
            let mut state = self.0.lock();
            match &mut *state {
                AnswerState::Waiting(listener) => {
                    debug_assert!(listener.is_none(), "an answer has one caller");
                    *listener = Some(Box::new(move |value| reply.give(value)));
                }
                _ => return take(&mut state).ok_or(Unanswered::Gone),
            }
        }
        match at_most(environment, limit, call).await {
            Some(answered) => answered.flatten().ok_or(Unanswered::Gone),
            None => Err(Unanswered::Late(limit)),
        }
    }
}

fn take<T>(state: &mut AnswerState<T>) -> Option<T> {
    match std::mem::replace(state, AnswerState::Over) {
        AnswerState::Given(value) => Some(value),
        _ => None,
    }
}

impl<T> SharedAnswer<T> {
    fn lock(&self) -> MutexGuard<'_, AnswerState<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self, value: Option<T>) {
        let mut state = self.lock();
        debug_assert!(matches!(&*state, AnswerState::Waiting(_)), "an answer comes once");
        let listener = match &mut *state {
            AnswerState::Waiting(listener) => listener.take(),
            _ => None,
        };
        let Some(listener) = listener else {
            *state = value.map_or(AnswerState::Over, AnswerState::Given);
            self.changed.notify_all();
            return;
        };
        *state = AnswerState::Over;
        drop(state);
        listener(value);
    }
}

impl<T> AnswerPromise<T> {
    pub(crate) fn give(mut self, value: T) {
        if let Some(shared) = self.0.take() {
            shared.end(Some(value));
        }
    }
}

impl<T> Drop for AnswerPromise<T> {
    fn drop(&mut self) {
        if let Some(shared) = self.0.take() {
            shared.end(None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(20);

    #[test]
    fn a_thread_gets_the_answer_or_learns_that_none_comes() {
        let (promise, given) = answer();
        promise.give(5);
        assert!(given.is_here(Duration::ZERO));
        assert_eq!(given.wait(Duration::ZERO), Ok(5));
        let (promise, never) = answer::<u32>();
        drop(promise);
        assert_eq!(never.wait(LONG), Err(Unanswered::Gone));
        let (promise, later) = answer();
        let thread = std::thread::spawn(move || later.wait(LONG));
        promise.give(6);
        assert_eq!(thread.join().unwrap(), Ok(6));
        let (_kept, late) = answer::<u32>();
        let limit = Duration::from_millis(1);
        assert!(!late.is_here(limit));
        assert_eq!(late.wait(limit), Err(Unanswered::Late(limit)));
    }

    #[test]
    fn a_thread_whose_caller_breaks_off_waits_no_longer() {
        let (_kept, never) = answer::<u32>();
        let _allowed = perigee_shard::interruptible(|| true);
        assert_eq!(never.wait(LONG), Err(Unanswered::Canceled));
    }
}
