//! The second try of an asynchronous batch whose peer was not where it was: the peer is looked up
//! afresh, once, and the batch goes on within the deadline it has had from the start.
//!
//! Looking a peer up waits for it, so each peer has a thread of its own while batches to it wait: a
//! silent peer delays only its own batches, and those with the least time left go first. The
//! invariant: a batch that waits here goes on, or fails with the reason.

use super::EngineState;
use super::preparation::{Attempt, PreparedBatch, due};
use crate::batch::submission::Submission;
use crate::error::EngineError;
use crate::limits::REPEAT_PEERS_MAX;
use crate::request::{SubmitOptions, TransferRequest};
use perigee_mover::{PeerError, Terms};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

/// Batches that wait for their peers to be looked up, by peer. A peer that is listed has a thread.
#[derive(Debug, Default)]
pub(super) struct Retries {
    waiting: Mutex<HashMap<String, PeerRetries>>,
}

/// What waits for one peer.
#[derive(Debug, Default)]
struct PeerRetries {
    /// By when they must be over, and the number of each.
    batches: BTreeMap<(Duration, u64), Retry>,
    numbers: u64,
}

impl PeerRetries {
    fn push(&mut self, retry: Retry) {
        self.numbers += 1;
        self.batches.insert((retry.terms.due, self.numbers), retry);
    }

    fn give_up(self, reason: &EngineError) {
        let batches = self.batches.into_values();
        batches.for_each(|retry| retry.submission.give_up(reason));
    }
}

/// A batch and what it was submitted with.
#[derive(Debug)]
pub(super) struct Retry {
    engine: Weak<EngineState>,
    submission: Arc<Submission>,
    segment: String,
    requests: Vec<TransferRequest>,
    options: SubmitOptions,
    terms: Terms,
    /// Run of the peer that the first try met.
    met: Option<u64>,
}

impl Retries {
    /// Takes a batch; one too many is refused with an error.
    fn push(self: &Arc<Self>, retry: Retry) {
        let name = retry.segment.clone();
        let mut waiting = self.lock();
        if let Some(batches) = waiting.get_mut(&name) {
            return batches.push(retry);
        }
        if waiting.len() >= REPEAT_PEERS_MAX {
            drop(waiting);
            return retry.submission.give_up(&EngineError::TooMany {
                what: "peers that are looked up again",
                limit: REPEAT_PEERS_MAX,
                remedy: "submit the batch again",
            });
        }
        waiting.entry(name.clone()).or_default().push(retry);
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
        while let Some((retry, newest)) = self.next(peer) {
            let Err(reason) = retry.try_again() else {
                continue;
            };
            retry.submission.give_up(&reason);
            if is_the_peers(&reason) {
                self.waited_in_vain(peer, newest).give_up(&reason);
            }
        }
    }

    /// The batch that has the least time left, and the number of the newest one that waits beside
    /// it.
    fn next(&self, peer: &str) -> Option<(Retry, u64)> {
        let mut all = self.lock();
        let waiting = all.get_mut(peer)?;
        let newest = waiting.numbers;
        let Some((_, next)) = waiting.batches.pop_first() else {
            all.remove(peer);
            return None;
        };
        Some((next, newest))
    }

    /// Takes those that waited while the peer was looked up: asking once more for each would tell
    /// nothing new.
    fn waited_in_vain(&self, peer: &str, newest: u64) -> PeerRetries {
        let mut all = self.lock();
        let Some(waiting) = all.get_mut(peer) else {
            return PeerRetries::default();
        };
        let batches = std::mem::take(&mut waiting.batches).into_iter();
        let (gone, later) = batches.partition(|((_, number), _)| *number <= newest);
        waiting.batches = later;
        PeerRetries { batches: gone, numbers: 0 }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, PeerRetries>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether an error says the same of every batch to the peer, whatever it asks and however much
/// time it has.
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

impl Retry {
    fn try_again(&self) -> Result<(), EngineError> {
        let engine = self.engine.upgrade().ok_or(EngineError::Closed)?;
        engine.check_open()?;
        engine.segments.open(&self.segment, due(self.terms), &self.requests, self.met)?;
        let _pass = engine.enter()?;
        if !self.submission.resume() {
            return Ok(());
        }
        let attempt = Attempt { met: self.met, notifies: true };
        let (requests, options) = (&self.requests, &self.options);
        let prepared = engine.prepare(&self.segment, requests, options, self.terms, attempt)?;
        self.submission.go_on(&prepared.batch);
        // SAFETY: the caller keeps the local ranges until every request is final, which none is
        // before this attempt ends.
        unsafe { engine.depart(prepared) };
        Ok(())
    }
}

impl EngineState {
    /// Has a batch that ends for its peer's sake tried once more.
    pub(super) fn give_second_chance(
        self: &Arc<Self>,
        prepared: &PreparedBatch,
        submission: &Arc<Submission>,
        requests: &[TransferRequest],
        options: &SubmitOptions,
    ) {
        let (engine, submission) = (Arc::downgrade(self), Arc::downgrade(submission));
        let (segment, requests) = (prepared.target.name().to_string(), requests.to_vec());
        let (options, retries) = (options.clone(), self.retries.clone());
        let (terms, met, shards) = (prepared.terms, prepared.met(), self.shards.clone());
        prepared.batch.then(Box::new(move |batch| {
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
            retries.push(Retry { engine, submission, segment, requests, options, terms, met });
        }));
    }
}
