//! The second try of an asynchronous batch whose peer was not where it was: the peer is looked up afresh, once, and the
//! batch goes on within the deadline it has had from the start.
//!
//! Looking a peer up waits for it, so each peer has a thread of its own for as long as batches to it wait: a silent one
//! holds up nobody else's, and those with the least time left go first. The invariant: a batch that waits here goes on, or
//! is told why it does not.

use super::Inner;
use super::preparation::{Attempt, Flight, due};
use crate::batch::submission::Submission;
use crate::error::EngineError;
use crate::limits::REPEAT_PEERS_MAX;
use crate::request::{Request, SubmitOptions};
use perigee_mover::{PeerError, Terms};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

/// Batches that wait for their peers to be looked up, by peer. A peer that is listed has a thread.
#[derive(Debug, Default)]
pub(super) struct Repeats {
    waiting: Mutex<HashMap<String, Waiting>>,
}

/// What waits for one peer.
#[derive(Debug, Default)]
struct Waiting {
    /// By when they must be over, and the number of each.
    batches: BTreeMap<(Duration, u64), Repeat>,
    numbers: u64,
}

impl Waiting {
    fn push(&mut self, repeat: Repeat) {
        self.numbers += 1;
        self.batches
            .insert((repeat.terms.due, self.numbers), repeat);
    }

    fn give_up(self, reason: &EngineError) {
        let batches = self.batches.into_values();
        batches.for_each(|repeat| repeat.submission.give_up(reason));
    }
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
        if let Some(batches) = waiting.get_mut(&name) {
            return batches.push(repeat);
        }
        if waiting.len() >= REPEAT_PEERS_MAX {
            drop(waiting);
            return repeat.submission.give_up(&EngineError::TooMany {
                what: "peers that are looked up again",
                limit: REPEAT_PEERS_MAX,
                remedy: "submit the batch again",
            });
        }
        waiting.entry(name.clone()).or_default().push(repeat);
        drop(waiting);
        let (all, peer) = (self.clone(), name.clone());
        let builder = std::thread::Builder::new().name("perigee-repeat".to_owned());
        if let Err(error) = builder.spawn(move || all.work(&peer)) {
            let reason = EngineError::Start(error.to_string());
            let left = self.lock().remove(&name).unwrap_or_default();
            left.give_up(&reason);
        }
    }

    fn work(&self, peer: &str) {
        while let Some((repeat, newest)) = self.next(peer) {
            let Err(reason) = repeat.try_again() else {
                continue;
            };
            repeat.submission.give_up(&reason);
            if is_the_peers(&reason) {
                self.waited_in_vain(peer, newest).give_up(&reason);
            }
        }
    }

    /// The batch that has the least time left, and the number of the newest one that waits beside it.
    fn next(&self, peer: &str) -> Option<(Repeat, u64)> {
        let mut all = self.lock();
        let waiting = all.get_mut(peer)?;
        let newest = waiting.numbers;
        let Some((_, next)) = waiting.batches.pop_first() else {
            all.remove(peer);
            return None;
        };
        Some((next, newest))
    }

    /// Takes those that waited while the peer was looked up: asking once more for each would tell nothing new.
    fn waited_in_vain(&self, peer: &str, newest: u64) -> Waiting {
        let mut all = self.lock();
        let Some(waiting) = all.get_mut(peer) else {
            return Waiting::default();
        };
        let batches = std::mem::take(&mut waiting.batches).into_iter();
        let (gone, later) = batches.partition(|((_, number), _)| *number <= newest);
        waiting.batches = later;
        Waiting {
            batches: gone,
            numbers: 0,
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether an error says the same of every batch to the peer, whatever it asks and however much time it has.
fn is_the_peers(error: &EngineError) -> bool {
    use EngineError as E;
    matches!(
        error,
        E::Peer(PeerError::Unreachable { .. })
            | E::Resolve { .. }
            | E::Metadata(_)
            | E::Handshake(_)
            | E::Closed
    )
}

impl Repeat {
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
        let (segment, requests) = (flight.target.name().to_string(), requests.to_vec());
        let (options, repeats) = (options.clone(), self.repeats.clone());
        let (terms, met, shards) = (flight.terms, flight.met(), self.shards.clone());
        flight.batch.then(Box::new(move |batch| {
            let Some(submission) = submission.upgrade() else {
                return;
            };
            if !batch.is_worth_a_second_try() || !submission.pause() {
                return submission.settle();
            }
            let (waiting, wanted) = (Arc::downgrade(&submission), Arc::downgrade(&submission));
            let late = EngineError::Peer(PeerError::Deadline {
                peer: segment.clone(),
                deadline: terms.length,
            });
            // Whatever the look-up of this or another batch takes.
            let is_wanted = move || wanted.upgrade().is_some_and(|it| it.is_waiting());
            shards.at(terms.due, is_wanted, move || {
                if let Some(submission) = waiting.upgrade() {
                    submission.give_up_waiting(&late);
                }
            });
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
