//! The second try of an asynchronous batch whose peer was not where it was: the peer is looked up afresh, once, and the
//! batch goes on within the deadline it has had from the start.
//!
//! Looking a peer up waits for it, so each peer has a thread of its own for as long as batches to it wait: a silent one
//! holds up nobody else's. The invariant: a batch that waits here goes on, or is told why it does not.

use super::Inner;
use super::preparation::{Attempt, Flight, due};
use crate::batch::submission::Submission;
use crate::client::Terms;
use crate::error::EngineError;
use crate::limits::REPEAT_PEERS_MAX;
use crate::request::{Request, SubmitOptions};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Batches that wait for their peers to be looked up, by peer. A peer that is listed has a thread.
#[derive(Debug, Default)]
pub(super) struct Repeats {
    waiting: Mutex<HashMap<String, VecDeque<Repeat>>>,
}

/// A batch and what it was submitted with.
#[derive(Debug)]
pub(super) struct Repeat {
    engine: Weak<Inner>,
    submission: Arc<Submission>,
    segment: String,
    requests: Vec<Request>,
    options: SubmitOptions,
    terms: Terms,
    /// Life of the peer that the first try met.
    met: Option<u64>,
}

impl Repeats {
    /// Takes a batch; one too many is told so.
    fn push(self: &Arc<Self>, repeat: Repeat) {
        let name = repeat.segment.clone();
        let mut waiting = self.lock();
        if let Some(queue) = waiting.get_mut(&name) {
            return queue.push_back(repeat);
        }
        if waiting.len() >= REPEAT_PEERS_MAX {
            drop(waiting);
            return repeat.submission.give_up(&EngineError::TooMany {
                what: "peers that are looked up again",
                limit: REPEAT_PEERS_MAX,
                remedy: "submit the batch again",
            });
        }
        waiting.insert(name.clone(), VecDeque::from([repeat]));
        drop(waiting);
        let (all, peer) = (self.clone(), name.clone());
        let builder = std::thread::Builder::new().name("perigee-repeat".to_owned());
        if let Err(error) = builder.spawn(move || all.work(&peer)) {
            let left = self.lock().remove(&name).unwrap_or_default();
            let reason = EngineError::Start(error.to_string());
            left.iter().for_each(|one| one.submission.give_up(&reason));
        }
    }

    fn work(&self, peer: &str) {
        while let Some(repeat) = self.next(peer) {
            repeat.run();
        }
    }

    fn next(&self, peer: &str) -> Option<Repeat> {
        let mut waiting = self.lock();
        let next = waiting.get_mut(peer).and_then(VecDeque::pop_front);
        if next.is_none() {
            waiting.remove(peer);
        }
        next
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, VecDeque<Repeat>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Repeat {
    fn run(self) {
        if let Err(reason) = self.try_again() {
            self.submission.give_up(&reason);
        }
    }

    fn try_again(&self) -> Result<(), EngineError> {
        let engine = self.engine.upgrade().ok_or(EngineError::Closed)?;
        engine.check_open()?;
        engine
            .segments
            .open(&self.segment, due(self.terms), &self.requests, self.met)?;
        let _pass = engine.enter()?;
        if !self.submission.resume() {
            return Ok(());
        }
        let attempt = Attempt {
            met: self.met,
            notifies: true,
        };
        let (requests, options) = (&self.requests, &self.options);
        let flight = engine.prepare(&self.segment, requests, options, self.terms, attempt)?;
        self.submission.go_on(&flight.batch);
        // SAFETY: the caller keeps the local ranges until every request is final, which none is before this attempt ends.
        unsafe { engine.depart(flight) };
        Ok(())
    }
}

impl Inner {
    /// Has a batch that ends for its peer's sake tried once more.
    pub(super) fn give_second_chance(
        self: &Arc<Self>,
        flight: &Flight,
        submission: &Arc<Submission>,
        requests: &[Request],
        options: &SubmitOptions,
    ) {
        let (engine, submission) = (Arc::downgrade(self), Arc::downgrade(submission));
        let (segment, requests) = (flight.target.name.to_string(), requests.to_vec());
        let (options, repeats) = (options.clone(), self.repeats.clone());
        let (terms, met) = (flight.terms, flight.met());
        flight.batch.then(Box::new(move |batch| {
            let Some(submission) = submission.upgrade() else {
                return;
            };
            if !batch.is_worth_a_second_try() || !submission.pause() {
                return submission.settle();
            }
            repeats.push(Repeat {
                engine,
                submission,
                segment,
                requests,
                options,
                terms,
                met,
            });
        }));
    }
}
