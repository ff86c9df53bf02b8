//! Moving bytes: one batch from submission to its end.
//!
//! Blocking transfers run on the caller's own connection; asynchronous ones go to the shards. Both
//! report to the same kind of batch, which ends exactly once.

use super::preparation::{Attempt, PreparedBatch, RailPlan};
use super::{EngineState, TransferEngine};
use crate::batch::Batch;
use crate::batch::submission::Submission;
use crate::error::{BatchError, EngineError};
use crate::fallback::Fallback;
use crate::limits::SUBMITTER_COPY_BYTES_MAX;
use crate::rdma::RailBatch;
use crate::request::{BatchId, RequestStatus, SubmitOptions, TransferRequest, TransferState};
use crate::target::PeerSegment;
use perigee_mover::{BatchWait, BlockingCall, Terms};
use perigee_rails::Sink;
use perigee_rdma::Rdma;
use perigee_shard::{monotonic, poll_interruption};
use std::sync::Arc;
use std::time::{Duration, Instant};

impl TransferEngine {
    /// Submits a batch and returns at once. Shards move it; ask with [`TransferEngine::status`] or
    /// wait.
    ///
    /// # Safety
    /// The local ranges must be valid, and not written by others, until the state of every request
    /// is final; that holds for canceled batches too.
    ///
    /// # Errors
    /// The segment cannot be found, a request cannot be carried out by any route, or too many
    /// batches are kept.
    pub unsafe fn submit(
        &self,
        segment: &str,
        requests: &[TransferRequest],
        options: &SubmitOptions,
    ) -> Result<BatchId, EngineError> {
        let inner = &self.inner;
        let _pass = inner.enter()?;
        let terms = inner.terms(requests, options);
        let attempt = Attempt { met: None, notifies: true };
        let prepared = inner.prepare(segment, requests, options, terms, attempt);
        let prepared = prepared.inspect_err(|error| inner.segments.note_reported(error))?;
        let submission = Arc::new(Submission::new(prepared.batch.clone()));
        inner.give_second_chance(&prepared, &submission, requests, options);
        let id = inner.batches.insert(submission)?;
        // SAFETY: the caller keeps the local ranges until every request is final.
        unsafe { inner.depart(prepared) };
        Ok(id)
    }

    /// Moves a batch and waits for its end.
    ///
    /// # Safety
    /// The local ranges must be valid, and not written by others, until the call returns.
    ///
    /// # Errors
    /// What went wrong with the first request that failed.
    pub unsafe fn transfer(
        &self,
        segment: &str,
        requests: &[TransferRequest],
        options: &SubmitOptions,
    ) -> Result<(), EngineError> {
        let inner = &self.inner;
        let _pass = inner.enter()?;
        let terms = inner.terms(requests, options);
        // SAFETY: the caller keeps the local ranges until the call returns.
        let moved = unsafe { inner.carry_out_twice(segment, requests, options, terms) };
        moved.inspect_err(|error| inner.segments.note_reported(error))?;
        match &options.notify {
            Some(notify) => inner.notify_sender.deliver(segment, notify.clone()),
            None => Ok(()),
        }
    }

    /// How far one request of a batch is.
    ///
    /// # Errors
    /// No such batch or request.
    pub fn status(&self, batch: BatchId, index: usize) -> Result<RequestStatus, EngineError> {
        let submission = self.inner.batches.get(batch)?;
        let status = submission.request(index);
        let status = status.ok_or(BatchError::Unknown { batch: batch.0, index })?;
        self.inner.tell(&submission, status.state);
        Ok(status)
    }

    /// How far a batch is: pending until every request is final, then the worst of their states;
    /// bytes are summed.
    ///
    /// # Errors
    /// No such batch.
    pub fn batch_status(&self, batch: BatchId) -> Result<RequestStatus, EngineError> {
        let submission = self.inner.batches.get(batch)?;
        let status = submission.status();
        self.inner.tell(&submission, status.state);
        Ok(status)
    }

    /// What went wrong with the first request of a batch that failed, if it is over.
    ///
    /// # Errors
    /// That, or no such batch.
    pub fn batch_outcome(&self, batch: BatchId) -> Result<(), EngineError> {
        let submission = self.inner.batches.get(batch)?;
        self.inner.tell(&submission, submission.status().state);
        submission.outcome()
    }

    /// Waits for the end of a batch, at most `limit`, and tells how far it is then. If this
    /// thread's caller breaks off, the batch is taken back and ends soon.
    ///
    /// # Errors
    /// No such batch.
    pub fn wait(&self, batch: BatchId, limit: Duration) -> Result<RequestStatus, EngineError> {
        let submission = self.inner.batches.get(batch)?;
        let due = Instant::now().checked_add(limit);
        let left = || due.map_or(limit, |due| due.saturating_duration_since(Instant::now()));
        let mut wait = BatchWait::default();
        while !submission.wait(wait.step().min(left())) && !left().is_zero() {
            let complain = || self.inner.shards.complain_if_stalled();
            wait.look(complain, || self.inner.take_back(&submission.cancel()));
        }
        self.batch_status(batch)
    }

    /// Takes a batch back. What has not moved is not moved any more; the batch is over when its
    /// status says so.
    ///
    /// # Errors
    /// No such batch.
    pub fn cancel(&self, batch: BatchId) -> Result<(), EngineError> {
        let batch = self.inner.batches.get(batch)?.cancel();
        self.inner.take_back(&batch);
        Ok(())
    }

    /// Forgets a batch that is over.
    ///
    /// # Errors
    /// No such batch, or it is still under way.
    pub fn release(&self, batch: BatchId) -> Result<(), EngineError> {
        self.inner.batches.release(batch)
    }
}

impl EngineState {
    /// Starts a batch that no caller waits for.
    ///
    /// # Safety
    /// The local ranges must stay valid until the batch is over.
    pub(super) unsafe fn depart(&self, prepared: PreparedBatch) {
        match prepared.copy_route.clone() {
            Some(route) if prepared.bytes() <= SUBMITTER_COPY_BYTES_MAX => {
                prepared.into_slices().for_each(|slice| route.run(slice));
            }
            Some(route) => self.copiers.submit(&route, prepared.into_slices()),
            // SAFETY: the caller's promise is the same.
            None => unsafe { self.hand_over(prepared) },
        }
    }

    /// Moves a batch and waits for its end, with a second try if the peer was not where it was.
    ///
    /// # Safety
    /// The local ranges must be valid, and not written by others, until the call returns.
    unsafe fn carry_out_twice(
        &self,
        segment: &str,
        requests: &[TransferRequest],
        options: &SubmitOptions,
        terms: Terms,
    ) -> Result<(), EngineError> {
        // SAFETY: the caller's promise is the same; the call returns only when the batch is over.
        let (mut ended, met) = unsafe { self.carry_out(segment, requests, options, terms, None) }?;
        if ended.is_worth_a_second_try() {
            // What was known of the peer is forgotten by now, so it is asked who it is.
            // SAFETY: as above; the first batch is over.
            (ended, _) = unsafe { self.carry_out(segment, requests, options, terms, met) }?;
        }
        ended.outcome()
    }

    /// The caller is about to hear of a state that a batch, or a request of it, has.
    fn tell(&self, submission: &Submission, state: TransferState) {
        if state.is_final()
            && let Some(error) = submission.news()
        {
            self.segments.note_reported(&error);
        }
    }

    /// Moves a batch and waits for its end; also tells in which run the peer was met. `met` is that
    /// of an earlier try.
    ///
    /// # Safety
    /// The local ranges must be valid, and not written by others, until the call returns.
    unsafe fn carry_out(
        &self,
        segment: &str,
        requests: &[TransferRequest],
        options: &SubmitOptions,
        terms: Terms,
        met: Option<u64>,
    ) -> Result<(Arc<Batch>, Option<u64>), EngineError> {
        let attempt = Attempt { met, notifies: false };
        let prepared = self.prepare(segment, requests, options, terms, attempt)?;
        let (batch, met) = (prepared.batch.clone(), prepared.met());
        if let Some(route) = prepared.copy_route.clone() {
            prepared.into_slices().for_each(|slice| {
                if self.is_closed() {
                    slice.give_up(&EngineError::Closed);
                } else if poll_interruption() {
                    slice.give_up(&EngineError::Canceled);
                } else {
                    route.run(slice);
                }
            });
        } else if prepared.suits_the_caller() {
            self.move_here(prepared);
        } else {
            // SAFETY: the caller's promise is the same.
            unsafe { self.hand_over(prepared) };
        }
        // Shards and rails end everything by its deadline; only then may the memory be given up.
        let mut wait = BatchWait::default();
        while !batch.wait(wait.step()) {
            let complain = || self.shards.complain_if_stalled();
            wait.look(complain, || self.take_back(&batch));
        }
        debug_assert!(batch.is_over(), "its memory is given back only now");
        Ok((batch, met))
    }

    /// Moves a batch on the calling thread.
    fn move_here(&self, prepared: PreparedBatch) {
        let left = prepared.terms.due.saturating_sub(monotonic());
        let call = BlockingCall {
            target: &prepared.target.tcp.clone(),
            identity: self.identity,
            congestion: &self.options.congestion,
            with_checksum: self.options.with_checksum,
            deadline: Instant::now() + left,
            length: prepared.terms.length,
            is_closed: &|| self.is_closed(),
        };
        call.run(prepared.into_slices());
    }

    /// Gives a batch to the rails, or to the shards.
    ///
    /// # Safety
    /// The local ranges must stay valid until the batch is over.
    unsafe fn hand_over(&self, mut prepared: PreparedBatch) {
        if let (Some(rdma), Some(plan)) = (&self.rdma, prepared.rails.take()) {
            // SAFETY: the caller's promise is the same.
            return unsafe { self.hand_to_rails(rdma, prepared, &plan) };
        }
        self.fallback(&prepared.target, prepared.terms).divert_all(prepared.into_slices());
    }

    /// # Safety
    /// As [`EngineState::hand_over`].
    unsafe fn hand_to_rails(&self, rdma: &Arc<Rdma>, prepared: PreparedBatch, plan: &RailPlan) {
        let terms = prepared.terms;
        let pieces = prepared.slices.into_iter();
        let pieces = pieces.flat_map(|(d, pieces)| pieces.into_iter().map(move |piece| (d, piece)));
        let pieces: Vec<_> = pieces.collect();
        debug_assert_eq!(pieces.len(), plan.requests.len(), "the tag of a request names its piece");
        let fallback = self.fallback(&prepared.target, terms);
        let lease = (&plan.endpoint, &plan.rails);
        let rails = RailBatch::new(&prepared.batch, pieces, fallback, rdma, lease);
        let rails = Arc::new(rails);
        // The rails get half of the time: what they cannot do goes over TCP in the other half.
        let now = monotonic();
        let deadline = now + terms.due.saturating_sub(now) / 2;
        let sink: Arc<dyn Sink> = rails.clone();
        // SAFETY: the caller's promise is the same, and the sink ends the batch.
        match unsafe { rdma.engine().submit(plan.rails.peer(), &plan.requests, deadline, &sink) } {
            Ok(ticket) => {
                prepared.batch.set_ticket(ticket);
                if prepared.batch.is_canceled() {
                    rdma.engine().cancel(ticket);
                }
            }
            Err(error) => {
                tracing::debug!(%error, "The batch goes over TCP instead of RDMA");
                rails.divert_all();
            }
        }
    }

    /// The way over TCP to a target.
    pub(super) fn fallback(&self, target: &Arc<PeerSegment>, terms: Terms) -> Fallback {
        Fallback { shards: self.shards.clone(), target: target.clone(), terms }
    }

    /// Takes a batch back: breaks off what is under way.
    fn take_back(&self, batch: &Arc<Batch>) {
        batch.cancel();
        if let (Some(rdma), Some(ticket)) = (&self.rdma, batch.ticket()) {
            rdma.engine().cancel(ticket);
        }
        self.shards.cancel(batch);
        batch.taken_back();
    }
}
