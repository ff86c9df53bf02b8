//! Moving bytes: one batch from submission to its end.
//!
//! Blocking transfers run on the caller's own connection; asynchronous ones go to the shards. Both report to the same kind
//! of batch, which ends exactly once.

use super::{Inner, TransferEngine};
use crate::batch::{AtEnd, Batch};
use crate::client::{Call, Order, Terms};
use crate::device::Stage;
use crate::error::EngineError;
use crate::limits::{CALLER_READ_BYTES_MAX, DEADLINE_MAX, SLOWEST_PER_BYTE_NS};
use crate::observer::Route;
use crate::plan::Plan;
use crate::rdma::{Fallback, RailFlight, Rdma};
use crate::registry::RegionUse;
use crate::request::{BatchId, Direction, Request, RequestStatus, SubmitOptions};
use crate::slice::{Piece, Slice};
use crate::tally::Tally;
use crate::target::{Dialect, Target};
use perigee_rails::{RailRequest, Sink};
use perigee_shard::monotonic;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A batch that is ready to go.
struct Flight {
    target: Arc<Target>,
    batch: Arc<Batch>,
    slices: Vec<(Direction, Vec<Piece>)>,
    terms: Terms,
    /// What the rails were asked to do, if they go first.
    rails: Option<Vec<RailRequest>>,
}

impl Flight {
    /// Whether the calling thread moves it best. Large reads go to the shards: several connections filled by the ring are
    /// faster and steadier than one that is drained piece by piece.
    fn suits_the_caller(&self) -> bool {
        let reads = self
            .slices
            .iter()
            .filter(|(direction, _)| *direction == Direction::Read);
        let bytes: u64 = reads
            .flat_map(|(_, pieces)| pieces)
            .map(|piece| piece.bytes)
            .sum();
        let own = matches!(self.target.dialect, Dialect::Own { .. });
        self.rails.is_none() && own && bytes <= CALLER_READ_BYTES_MAX
    }
}

impl TransferEngine {
    /// Submits a batch and returns at once. Shards move it; ask with [`TransferEngine::status`] or wait.
    ///
    /// # Safety
    /// The local ranges must be valid, and written by nobody else, until the state of every request is final; that holds
    /// for canceled batches too.
    ///
    /// # Errors
    /// The segment cannot be found, a request cannot be carried out by anybody, or too many batches are kept.
    pub unsafe fn submit(
        &self,
        segment: &str,
        requests: &[Request],
        options: &SubmitOptions,
    ) -> Result<BatchId, EngineError> {
        let inner = &self.inner;
        let _pass = inner.enter()?;
        let flight = inner.prepare(segment, requests, options, true)?;
        let id = inner.batches.insert(flight.batch.clone())?;
        // SAFETY: the caller keeps the local ranges until every request is final.
        unsafe { inner.hand_over(flight) };
        Ok(id)
    }

    /// Moves a batch and waits for its end.
    ///
    /// # Safety
    /// The local ranges must be valid, and written by nobody else, until the call returns.
    ///
    /// # Errors
    /// What went wrong with the first request that failed.
    pub unsafe fn transfer(
        &self,
        segment: &str,
        requests: &[Request],
        options: &SubmitOptions,
    ) -> Result<(), EngineError> {
        let inner = &self.inner;
        let _pass = inner.enter()?;
        let flight = inner.prepare(segment, requests, options, false)?;
        let batch = flight.batch.clone();
        if flight.suits_the_caller() {
            inner.move_here(flight);
        } else {
            // SAFETY: the call returns only when the batch is over.
            unsafe { inner.hand_over(flight) };
            // Shards and rails end everything by its deadline; only then may the memory be given up.
            while !batch.wait(Duration::MAX, || inner.shards.complain_if_stalled()) {}
        }
        batch.outcome()?;
        match &options.notify {
            Some(notify) => inner.herald.deliver(segment, notify.clone()),
            None => Ok(()),
        }
    }

    /// How far one request of a batch is.
    ///
    /// # Errors
    /// No such batch or request.
    pub fn status(&self, batch: BatchId, index: usize) -> Result<RequestStatus, EngineError> {
        let status = self.inner.batches.get(batch)?.request(index);
        status.ok_or(EngineError::UnknownBatch {
            batch: batch.0,
            index,
        })
    }

    /// How far a batch is: pending until every request is final, then the worst of their states; bytes are summed.
    ///
    /// # Errors
    /// No such batch.
    pub fn batch_status(&self, batch: BatchId) -> Result<RequestStatus, EngineError> {
        Ok(self.inner.batches.get(batch)?.status())
    }

    /// What went wrong with the first request of a batch that failed, if it is over.
    ///
    /// # Errors
    /// That, or no such batch.
    pub fn batch_outcome(&self, batch: BatchId) -> Result<(), EngineError> {
        self.inner.batches.get(batch)?.outcome()
    }

    /// Waits for the end of a batch, at most `limit`, and tells how far it is then.
    ///
    /// # Errors
    /// No such batch.
    pub fn wait(&self, batch: BatchId, limit: Duration) -> Result<RequestStatus, EngineError> {
        let batch = self.inner.batches.get(batch)?;
        batch.wait(limit, || self.inner.shards.complain_if_stalled());
        Ok(batch.status())
    }

    /// Takes a batch back. What has not moved is not moved any more; the batch is over when its status says so.
    ///
    /// # Errors
    /// No such batch.
    pub fn cancel(&self, batch: BatchId) -> Result<(), EngineError> {
        let batch = self.inner.batches.get(batch)?;
        batch.cancel();
        self.inner.cancel_on_rails(&batch);
        self.inner.shards.cancel(&batch);
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

impl Inner {
    fn prepare(
        &self,
        segment: &str,
        requests: &[Request],
        options: &SubmitOptions,
        notifies_itself: bool,
    ) -> Result<Flight, EngineError> {
        let wish = Wish::parse(options)?;
        let target = self.segments.open(segment)?;
        let mut plan = Plan::new(requests)?;
        let bytes: u64 = requests.iter().map(|request| request.bytes).sum();
        let given = options.deadline.unwrap_or(self.options.deadline);
        let for_bytes = Duration::from_nanos(bytes.saturating_mul(SLOWEST_PER_BYTE_NS));
        let length = given.saturating_add(for_bytes).min(DEADLINE_MAX);
        let notify = options.notify.clone().filter(|_| notifies_itself);
        let rails = match wish {
            Wish::Tcp => None,
            Wish::Nearest | Wish::Rdma => self.rail_requests(&target, &plan.slices),
        };
        if wish == Wish::Rdma && rails.is_none() {
            return Err(EngineError::Unsupported(format!(
                "not all of the batch can go to {segment} over RDMA; register the local memory, or leave the hint out"
            )));
        }
        let stages = match rails {
            Some(_) => Vec::new(),
            None => self.stage(requests, &mut plan)?,
        };
        let route = if rails.is_some() {
            Route::Rdma
        } else {
            Route::Tcp
        };
        let tally = Tally::begin(
            &self.counters,
            &self.options.observer,
            route,
            &target,
            requests,
        );
        let (segments, herald, peer) = (self.segments.clone(), self.herald.clone(), target.clone());
        let at_end: AtEnd = Box::new(move |batch| {
            tally.end(batch);
            match (batch.outcome(), notify) {
                (Ok(()), Some(notify)) => herald.post(&peer.name, notify),
                (Err(error), _) if error.is_peer_fault() => segments.forget(&peer),
                _ => {}
            }
        });
        let uses = self.local_uses(requests);
        let batch = Arc::new(Batch::new(
            plan.pieces.into_iter(),
            uses,
            stages,
            Some(at_end),
        ));
        Ok(Flight {
            target,
            batch,
            slices: plan.slices,
            terms: Terms {
                due: monotonic() + length,
                length,
                with_checksum: self.options.with_checksum,
            },
            rails,
        })
    }

    /// The batch as the rails take it, if they reach all of it.
    fn rail_requests(
        &self,
        target: &Target,
        slices: &[(Direction, Vec<Piece>)],
    ) -> Option<Vec<RailRequest>> {
        let remote = target
            .rails
            .as_ref()
            .filter(|remote| remote.peer().is_open())?;
        let mut requests = Vec::new();
        for (direction, piece) in slices
            .iter()
            .flat_map(|(d, pieces)| pieces.iter().map(move |p| (*d, p)))
        {
            let region = self.registry.region(piece.local, piece.bytes)?;
            let local = region.registration()?.clone();
            let keys = remote.keys(piece.remote, piece.bytes).or_else(|| {
                self.segments.refresh_keys(target);
                remote.keys(piece.remote, piece.bytes)
            });
            requests.push(RailRequest {
                direction: match direction {
                    Direction::Read => perigee_rails::Direction::Read,
                    Direction::Write => perigee_rails::Direction::Write,
                },
                local,
                local_address: piece.local,
                keys: keys?,
                remote_address: piece.remote,
                bytes: piece.bytes,
                tag: requests.len() as u64,
            });
        }
        (!requests.is_empty()).then_some(requests)
    }

    /// Gives local device memory host memory to go through, and plans the batch with that.
    fn stage(&self, requests: &[Request], plan: &mut Plan) -> Result<Vec<Stage>, EngineError> {
        let mut stages = Vec::new();
        let Some(devices) = &self.devices else {
            return Ok(stages);
        };
        let mut staged = requests.to_vec();
        for request in staged.iter_mut().filter(|request| request.bytes > 0) {
            if !devices.0.holds(request.local) {
                continue;
            }
            let stage =
                Stage::new(devices, request.local, request.bytes).map_err(EngineError::Memory)?;
            if request.direction == Direction::Write {
                stage.load().map_err(EngineError::Memory)?;
            }
            request.local = stage.host() as u64;
            stages.push(stage);
        }
        if !stages.is_empty() {
            *plan = Plan::new(&staged)?;
        }
        Ok(stages)
    }

    /// Keeps registered local buffers from being unregistered under the batch.
    fn local_uses(&self, requests: &[Request]) -> Vec<Arc<RegionUse>> {
        let mut uses: Vec<Arc<RegionUse>> = Vec::new();
        for request in requests.iter().filter(|request| request.bytes > 0) {
            let covers = |used: &Arc<RegionUse>| {
                let region = used.region();
                region.address() <= request.local && request.local < region.end()
            };
            if !uses.last().is_some_and(covers) {
                uses.extend(
                    self.registry
                        .use_range(request.local, request.bytes)
                        .map(Arc::new),
                );
            }
        }
        uses
    }

    /// Moves a batch on the calling thread.
    fn move_here(&self, flight: Flight) {
        let left = flight.terms.due.saturating_sub(monotonic());
        let call = Call {
            target: &flight.target,
            identity: self.identity,
            congestion: &self.options.congestion,
            with_checksum: self.options.with_checksum,
            deadline: Instant::now() + left,
            length: flight.terms.length,
            is_closed: &|| self.is_closed(),
        };
        let batch = flight.batch;
        let slices = flight.slices.into_iter();
        call.run(slices.map(|(direction, pieces)| Slice::new(direction, pieces, batch.clone())));
    }

    /// Gives a batch to the rails, or to the shards.
    ///
    /// # Safety
    /// The local ranges must stay valid until the batch is over.
    unsafe fn hand_over(&self, mut flight: Flight) {
        if let (Some(rdma), Some(requests)) = (&self.rdma, flight.rails.take()) {
            // SAFETY: the caller's promise is the same.
            return unsafe { self.hand_to_rails(rdma, flight, &requests) };
        }
        let (target, batch, terms) = (flight.target, flight.batch, flight.terms);
        let orders = flight.slices.into_iter().map(|(direction, pieces)| Order {
            target: target.clone(),
            slice: Slice::new(direction, pieces, batch.clone()),
            terms,
        });
        self.shards.submit(orders);
    }

    /// # Safety
    /// As [`Inner::hand_over`].
    unsafe fn hand_to_rails(&self, rdma: &Rdma, flight: Flight, requests: &[RailRequest]) {
        let terms = flight.terms;
        let pieces = flight.slices.into_iter();
        let pieces = pieces.flat_map(|(d, pieces)| pieces.into_iter().map(move |piece| (d, piece)));
        let rails = Arc::new(RailFlight {
            batch: flight.batch.clone(),
            pieces: pieces.collect(),
            fallback: Fallback {
                shards: self.shards.clone(),
                target: flight.target.clone(),
                terms,
            },
        });
        let Some(remote) = &flight.target.rails else {
            return rails.divert_all();
        };
        // The rails get half of the time: what they cannot do goes over TCP in the other half.
        let now = monotonic();
        let deadline = now + terms.due.saturating_sub(now) / 2;
        let sink: Arc<dyn Sink> = rails.clone();
        // SAFETY: the caller's promise is the same, and the sink ends the batch.
        match unsafe {
            rdma.rails()
                .submit(remote.peer(), requests, deadline, &sink)
        } {
            Ok(ticket) => {
                flight.batch.set_ticket(ticket);
                if flight.batch.is_canceled() {
                    rdma.rails().cancel(ticket);
                }
            }
            Err(error) => {
                tracing::debug!(%error, "The batch goes over TCP instead of RDMA");
                rails.divert_all();
            }
        }
    }

    fn cancel_on_rails(&self, batch: &Batch) {
        if let (Some(rdma), Some(ticket)) = (&self.rdma, batch.ticket()) {
            rdma.rails().cancel(ticket);
        }
    }
}

/// The route that a hint asks for; one that does not exist is an error rather than a surprise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wish {
    Nearest,
    Tcp,
    Rdma,
}

impl Wish {
    fn parse(options: &SubmitOptions) -> Result<Self, EngineError> {
        match options.hint.as_deref() {
            None | Some("") => Ok(Wish::Nearest),
            Some("tcp") => Ok(Wish::Tcp),
            Some("rdma") => Ok(Wish::Rdma),
            Some(other) => Err(EngineError::Unsupported(format!(
                "there is no route {other:?} to this peer; write tcp or rdma, or leave the hint out"
            ))),
        }
    }
}
