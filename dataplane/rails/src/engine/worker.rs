//! One shard of rails on an executor: jobs from callers, the poll loop, and waking on completion
//! events.

use super::events::WatchedQueues;

use super::exchange::OfferExchange;
use crate::error::RailError;
use crate::limits::SHARD_ANSWER;
use crate::rail::Rail;
use crate::report::RailCells;
use crate::shard::{Outgoing, RailShard, ShardSetup};
use futures_lite::future::or;
use perigee_shard::{
    Environment, Local, Mailbox, Poller, Shard, ShardEnvironment, ShardOptions, monotonic,
};
use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::rc::Rc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;

/// The handle of one shard.
#[derive(Debug)]
pub(super) struct RailWorker {
    mailbox: Mailbox,
    rails: Local<RailPoller>,
    shard: Mutex<Option<Shard>>,
    cells: Vec<Arc<RailCells>>,
}

impl RailWorker {
    pub(super) fn start(
        setup: ShardSetup,
        (cpu, poll): (Option<usize>, Duration),
        rails: &[Arc<Rail>],
        exchange: &Arc<dyn OfferExchange>,
    ) -> Result<Self, RailError> {
        let cells: Vec<Arc<RailCells>> = rails.iter().map(|_| Arc::default()).collect();
        let options = ShardOptions { cpu, poll, ..ShardOptions::named("perigee-rails") };
        let (ready, started) = sync_channel::<WorkerStart>(1);
        let (rails, exchange) = (rails.to_vec(), exchange.clone());
        let theirs = cells.clone();
        let shard = Shard::start(options, move |environment| async move {
            match RailShard::new(setup, &rails, &theirs) {
                Err(error) => drop(ready.send(Err(error))),
                Ok(shard) => run(environment, shard, exchange, ready).await,
            }
        })
        .map_err(|error| shard_error(&error))?;
        let rails = match started.recv_timeout(SHARD_ANSWER) {
            Ok(started) => started?,
            Err(_) => return Err(silent()),
        };
        Ok(Self { mailbox: shard.mailbox(), rails, shard: Mutex::new(Some(shard)), cells })
    }

    pub(super) fn mailbox(&self) -> Mailbox {
        self.mailbox.clone()
    }

    pub(super) fn cells(&self) -> &[Arc<RailCells>] {
        &self.cells
    }

    /// Has the shard do something. A shard that is gone drops the job, and a submission that is
    /// dropped tells its sink.
    pub(super) fn tell(&self, job: impl FnOnce(&mut RailShard, Duration) + Send + 'static) {
        let name = self.rails;
        self.mailbox.post(Box::new(move |environment| {
            if let Some(rails) = environment.local(name) {
                job(&mut rails.shard.borrow_mut(), monotonic());
            }
        }));
    }

    /// Has the shard do something and waits for the result.
    pub(super) fn ask<R: Send + 'static>(
        &self,
        job: impl FnOnce(&mut RailShard, Duration) -> R + Send + 'static,
    ) -> Result<R, RailError> {
        let (reply, answer) = sync_channel(1);
        self.tell(move |shard, now| {
            // A failure means that the caller has stopped waiting.
            let _ = reply.send(job(shard, now));
        });
        answer.recv_timeout(SHARD_ANSWER).map_err(|error| match error {
            std::sync::mpsc::RecvTimeoutError::Timeout => silent(),
            std::sync::mpsc::RecvTimeoutError::Disconnected => RailError::Closed,
        })
    }

    /// Has the shard drop everything and end.
    pub(super) fn begin_stop(&self) {
        let name = self.rails;
        self.mailbox.post(Box::new(move |environment| {
            if let Some(rails) = environment.local(name) {
                rails.shard.borrow_mut().close(monotonic());
                environment.give_up(name);
                rails.stop();
            }
        }));
    }

    /// Waits until it has ended.
    pub(super) fn finish_stop(&self) {
        let shard = self.shard.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(Err(error)) = shard.map(|shard| shard.join(SHARD_ANSWER)) {
            tracing::error!(%error, "A rail shard did not stop in time; its memory stays registered");
        }
    }
}

/// What a shard says when it runs, or why it does not.
type WorkerStart = Result<Local<RailPoller>, RailError>;

fn silent() -> RailError {
    RailError::Shard { reason: format!("a shard did not answer within {SHARD_ANSWER:?}") }
}

/// A shard of rails as the driver of its executor sees it.
pub(super) struct RailPoller {
    shard: RefCell<RailShard>,
    queues: WatchedQueues,
    exchange: Arc<dyn OfferExchange>,
    mailbox: Mailbox,
    name: Cell<Option<Local<RailPoller>>>,
    stopped: Cell<bool>,
    waker: Cell<Option<Waker>>,
}

async fn run(
    environment: ShardEnvironment,
    shard: RailShard,
    exchange: Arc<dyn OfferExchange>,
    ready: SyncSender<WorkerStart>,
) {
    let poller = Rc::new(RailPoller {
        queues: WatchedQueues::new(shard.queues().cloned()),
        shard: RefCell::new(shard),
        exchange,
        mailbox: environment.mailbox().clone(),
        name: Cell::new(None),
        stopped: Cell::new(false),
        waker: Cell::new(None),
    });
    let name = environment.keep(poller.clone());
    poller.name.set(Some(name));
    let as_poller: Rc<dyn Poller> = poller.clone();
    environment.poll_with(&as_poller);
    if ready.send(Ok(name)).is_err() {
        environment.give_up(name);
        return;
    }
    or(poller.until_stopped(), poller.queues.watch(&environment)).await;
}

impl RailPoller {
    fn stop(&self) {
        self.stopped.set(true);
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    fn until_stopped(&self) -> impl Future<Output = ()> {
        poll_fn(|context| {
            self.waker.set(Some(context.waker().clone()));
            if self.stopped.get() { Poll::Ready(()) } else { Poll::Pending }
        })
    }

    fn send(&self, outgoing: Outgoing) {
        let (mailbox, name) = (self.mailbox.clone(), self.name.get());
        let (peer, serial) = (outgoing.peer, outgoing.serial);
        let done = Box::new(move |answer| {
            mailbox.post(Box::new(move |environment: &ShardEnvironment| {
                if let Some(rails) = name.and_then(|name| environment.local(name)) {
                    rails.shard.borrow_mut().answer(peer, serial, answer, monotonic);
                }
            }));
        });
        self.exchange.exchange(&outgoing.peer_name, outgoing.offer, done);
    }
}

impl Poller for RailPoller {
    fn turn(&self, now: Duration) -> bool {
        let (worked, offers) = {
            let mut shard = self.shard.borrow_mut();
            (shard.turn(now), shard.take_offers())
        };
        let sent = !offers.is_empty();
        offers.into_iter().for_each(|offer| self.send(offer));
        worked || sent
    }

    fn is_busy(&self) -> bool {
        self.shard.borrow().is_busy()
    }

    fn before_sleep(&self) -> Option<Duration> {
        self.queues.arm();
        Some(self.shard.borrow().next_wake())
    }
}

pub(crate) fn shard_error(error: &dyn std::fmt::Display) -> RailError {
    RailError::Shard { reason: error.to_string() }
}
