//! The second try of an asynchronous batch whose peer was not where it was: the peer is looked up
//! afresh, once, and the batch goes on within the deadline it has had from the start.
//! Invariant: the memory of a batch that waits is its caller's until the batch goes on or fails.

use super::EngineState;
use super::preparation::{Attempt, PreparedBatch, due};
use super::retries::WaitingBatch;
use crate::batch::submission::Submission;
use crate::error::EngineError;
use crate::request::{SubmitOptions, TransferRequest};
use perigee_mover::{PeerError, Terms};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// A batch and what it was submitted with.
#[derive(Debug)]
struct Retry {
    engine: Weak<EngineState>,
    submission: Arc<Submission>,
    segment: String,
    requests: Vec<TransferRequest>,
    options: SubmitOptions,
    terms: Terms,
    /// Run of the peer that the first try met.
    met: Option<u64>,
}

impl WaitingBatch for Retry {
    fn segment(&self) -> &str {
        &self.segment
    }

    fn due(&self) -> Duration {
        self.terms.due
    }

    fn give_up(&self, reason: &EngineError) {
        self.submission.give_up(reason);
    }

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
            let retry = Retry { engine, submission, segment, requests, options, terms, met };
            retries.push(Box::new(retry));
        }));
    }
}
