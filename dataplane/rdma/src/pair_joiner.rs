//! The owner's threads that join the queue pairs which clients offer, and take them down. Both may
//! take long, so shards only wait for them.
//!
//! The invariant: a queue pair lives no longer than the connection on which its client asked for
//! rails. Work about one client is done by one thread in order: an offer that comes too late finds
//! its connection gone, one that came in time is over before the queue pairs are taken down.

use crate::limits::{JOINERS, OFFERS_MAX};
use crate::ticket_book::TicketBook;
use perigee_rails::{EndpointAnswer, EndpointOffer, RailEngine};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Where a thread leaves an answer for a shard.
#[derive(Debug)]
pub(crate) struct AnswerSlot<T>(Arc<Mutex<Option<T>>>);

impl<T> Clone for AnswerSlot<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> AnswerSlot<T> {
    fn new() -> Self {
        Self(Arc::default())
    }

    fn give(&self, value: T) {
        let before = self.0.lock().unwrap_or_else(PoisonError::into_inner).replace(value);
        debug_assert!(before.is_none(), "a task is answered once");
    }

    /// The answer, once it is there.
    pub(crate) fn take(&self) -> Option<T> {
        let mut value = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        value.take()
    }
}

type Joined = Result<EndpointAnswer, String>;
type Fenced = Result<(), String>;

enum JoinTask {
    Accept {
        offer: EndpointOffer,
        lease: u64,
        answer: AnswerSlot<Joined>,
    },
    /// What the client still reads is given back when it is over.
    Fence {
        epoch: u64,
        answer: AnswerSlot<Fenced>,
        read: Option<Arc<TicketBook>>,
    },
}

/// All joining threads of an owner.
#[derive(Debug)]
pub(crate) struct PairJoiner {
    shared: Arc<JoinerState>,
    /// Empty once it is closed.
    threads: Mutex<Vec<Sender<JoinTask>>>,
    next_lease: AtomicU64,
}

/// For each client, by the epoch of its rails, the connection that keeps its queue pairs, and what
/// is kept for it.
type LeaseTable = HashMap<u64, (u64, Arc<TicketBook>)>;

#[derive(Debug)]
struct JoinerState {
    engine: RailEngine,
    leases: Mutex<LeaseTable>,
    offers: AtomicUsize,
}

/// The right of a connection to have queue pairs. When it ends, they go.
#[derive(Debug)]
pub(crate) struct PairLease {
    joiner: Arc<PairJoiner>,
    epoch: u64,
    number: u64,
    tickets: Arc<TicketBook>,
}

impl PairJoiner {
    pub(crate) fn start(engine: &RailEngine) -> std::io::Result<Arc<Self>> {
        let shared = Arc::new(JoinerState {
            engine: engine.clone(),
            leases: Mutex::default(),
            offers: AtomicUsize::new(0),
        });
        let mut threads = Vec::new();
        for _ in 0..JOINERS {
            let (send, tasks) = channel();
            let theirs = shared.clone();
            std::thread::Builder::new()
                .name("perigee-join".to_owned())
                .spawn(move || theirs.work(&tasks))?;
            threads.push(send);
        }
        Ok(Arc::new(Self { shared, threads: Mutex::new(threads), next_lease: AtomicU64::new(1) }))
    }

    /// Lets a connection keep the queue pairs of a client; one that kept them before does so no
    /// longer.
    pub(crate) fn lease(self: &Arc<Self>, epoch: u64) -> PairLease {
        let number = self.next_lease.fetch_add(1, Ordering::Relaxed);
        let tickets = Arc::new(TicketBook::of_lease(number));
        self.shared.leases().insert(epoch, (number, tickets.clone()));
        PairLease { joiner: self.clone(), epoch, number, tickets }
    }

    /// The tickets of a client that has a connection.
    pub(crate) fn tickets_of(&self, epoch: u64) -> Option<Arc<TicketBook>> {
        self.shared.leases().get(&epoch).map(|(_, tickets)| tickets.clone())
    }

    /// Ends the threads when their tasks are done.
    pub(crate) fn close(&self) {
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        threads.clear();
    }

    /// A task after the end is dropped: the rails are gone, and every queue pair with them.
    fn hand(&self, epoch: u64, task: JoinTask) {
        let threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        // Another thread for the same client would let a fence overtake an offer.
        debug_assert!(threads.is_empty() || threads.len() == JOINERS);
        let turn = epoch as usize % JOINERS;
        if let Some(thread) = threads.get(turn) {
            let _ = thread.send(task);
        }
    }
}

impl PairLease {
    /// Epoch of the client's rails.
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// What is kept for the client.
    pub(crate) fn tickets(&self) -> &TicketBook {
        &self.tickets
    }

    /// Takes down every queue pair of the client.
    pub(crate) fn fence(&self) -> AnswerSlot<Fenced> {
        self.fence_before(None)
    }

    /// The same before `read` is given back.
    fn fence_before(&self, read: Option<Arc<TicketBook>>) -> AnswerSlot<Fenced> {
        let (epoch, answer) = (self.epoch, AnswerSlot::new());
        let task = JoinTask::Fence { epoch, answer: answer.clone(), read };
        self.joiner.hand(epoch, task);
        answer
    }

    /// Joins queue pairs; the offer must be of the client that is kept.
    pub(crate) fn accept(&self, offer: EndpointOffer) -> AnswerSlot<Joined> {
        let answer = AnswerSlot::new();
        let offers = &self.joiner.shared.offers;
        if offer.epoch != self.epoch {
            answer.give(Err("the offer is of another client".to_owned()));
        } else if offers.fetch_add(1, Ordering::Relaxed) >= OFFERS_MAX {
            offers.fetch_sub(1, Ordering::Relaxed);
            answer.give(Err("too many offers are waiting".to_owned()));
        } else {
            let task = JoinTask::Accept { offer, lease: self.number, answer: answer.clone() };
            self.joiner.hand(self.epoch, task);
        }
        answer
    }
}

impl Drop for PairLease {
    fn drop(&mut self) {
        let mut leases = self.joiner.shared.leases();
        if leases.get(&self.epoch).is_some_and(|(number, _)| *number == self.number) {
            leases.remove(&self.epoch);
            drop(leases);
            self.fence_before(Some(self.tickets.clone()));
        }
    }
}

impl JoinerState {
    fn leases(&self) -> MutexGuard<'_, LeaseTable> {
        self.leases.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self, tasks: &Receiver<JoinTask>) {
        for task in tasks {
            match task {
                JoinTask::Accept { offer, lease, answer } => {
                    let waiting = self.offers.fetch_sub(1, Ordering::Relaxed);
                    debug_assert!(waiting > 0, "each offer was counted");
                    answer.give(self.accept(offer, lease));
                }
                JoinTask::Fence { epoch, answer, read } => {
                    let fenced = self.engine.fence(epoch);
                    drop(read);
                    answer.give(fenced.map_err(|error| error.to_string()));
                }
            }
        }
    }

    fn accept(&self, offer: EndpointOffer, lease: u64) -> Joined {
        if self.leases().get(&offer.epoch).is_none_or(|(number, _)| *number != lease) {
            return Err("the connection of the offer is gone".to_owned());
        }
        let joined = self.engine.accept(offer);
        joined.map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests;
