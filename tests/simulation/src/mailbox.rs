//! The mailboxes of shards. Now and then a shard stands still for a moment, as a thread does that
//! lost its core.
//! Invariant: jobs run in the order in which they were posted, one at a turn, so that any task may
//! run between two of them; the jobs and values of a process end with it.

use crate::environment::SimulatedEnvironment;
use futures_lite::future::yield_now;
use perigee_shard::{Environment, Job, Locals, Post};
use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;

/// One job in so many has to wait, for `STALL_MAX` at most.
const STALL_ODDS: u64 = 32;
/// Longest stall of a job.
const STALL_MAX: Duration = Duration::from_millis(20);

/// The way to a shard.
#[derive(Clone)]
pub struct SimulatedMailbox(Arc<Mutex<Queue>>);

/// Jobs that have not run. The lock makes them sendable; only one thread ever takes it.
#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job<SimulatedEnvironment>>,
    waker: Option<Waker>,
    is_closed: bool,
}

/// The receiving side, which ends with its process.
pub(crate) struct Inbox {
    mailbox: SimulatedMailbox,
    locals: Rc<Locals>,
}

/// A mailbox and its inbox, for a shard with these values.
pub(crate) fn mailbox(locals: &Rc<Locals>) -> (SimulatedMailbox, Inbox) {
    let mailbox = SimulatedMailbox(Arc::default());
    let inbox = Inbox { mailbox: mailbox.clone(), locals: locals.clone() };
    (mailbox, inbox)
}

impl SimulatedMailbox {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Post<SimulatedEnvironment> for SimulatedMailbox {
    fn post(&self, job: Job<SimulatedEnvironment>) -> bool {
        let mut queue = self.lock();
        if queue.is_closed {
            return false;
        }
        queue.jobs.push_back(job);
        if let Some(waker) = queue.waker.take() {
            waker.wake();
        }
        true
    }
}

impl fmt::Debug for SimulatedMailbox {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("SimulatedMailbox")
    }
}

impl Inbox {
    /// Runs a job a turn, forever.
    pub(crate) async fn serve(self, environment: SimulatedEnvironment) {
        let random = environment.world().fork_random();
        loop {
            let job = self.next().await;
            if random.one_in(STALL_ODDS) {
                let length = random.length(Duration::ZERO, STALL_MAX);
                environment.sleep(length).await;
            }
            job(&environment);
            yield_now().await;
        }
    }

    async fn next(&self) -> Job<SimulatedEnvironment> {
        poll_fn(|context| {
            let mut queue = self.mailbox.lock();
            match queue.jobs.pop_front() {
                Some(job) => Poll::Ready(job),
                None => {
                    queue.waker = Some(context.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        let jobs = {
            let mut queue = self.mailbox.lock();
            queue.is_closed = true;
            std::mem::take(&mut queue.jobs)
        };
        drop(jobs);
        self.locals.clear();
    }
}
