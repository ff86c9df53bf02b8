//! From what a caller asks to a batch that is ready to go: its deadline, its peer, its route, its
//! slices.
//! Invariant: a batch takes the nearest route that reaches all of it, or exactly the one that was
//! asked for.

use super::EngineState;
use crate::batch::traced_batch::TracedBatch;
use crate::batch::{AtEnd, Batch};
use crate::batch_counting::BatchCounting;
use crate::error::EngineError;
use crate::limits::{CALLER_READ_BYTES_MAX, DEADLINE_MAX, SLOWEST_PER_BYTE_NS};
use crate::plan::BatchPlan;
use crate::registry::RegionUse;
use crate::request::{Direction, SubmitOptions, TransferRequest};
use crate::request_piece::RequestPiece;
use crate::shared_memory::CopyRoute;
use crate::slice::RequestSlice;
use crate::target::PeerSegment;
use perigee_device::GivenDevices;
use perigee_memory::reachable::{KnownMappings, Use};
use perigee_mover::{Dialect, RouteCounters, Terms};
use perigee_rails::RailRequest;
use perigee_rdma::PeerRails;
use perigee_schemas::Route;
use perigee_settings::Protocols;
use perigee_shard::monotonic;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// One of at most two tries to move a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Attempt {
    /// Run of the peer that an earlier try met.
    pub(super) met: Option<u64>,
    /// Whether the batch's notify is sent at its end; callers that wait send it themselves.
    pub(super) notifies: bool,
}

/// What the rails are asked to do.
pub(super) struct RailPlan {
    pub(super) rails: Arc<PeerRails>,
    pub(super) endpoint: Arc<str>,
    pub(super) requests: Vec<RailRequest>,
}

/// A batch that is ready to go.
pub(super) struct PreparedBatch {
    pub(super) target: Arc<PeerSegment>,
    pub(super) batch: Arc<Batch>,
    pub(super) slices: Vec<(Direction, Vec<RequestPiece>)>,
    pub(super) terms: Terms,
    /// The route through memory of this host, if it reaches all.
    pub(super) copy_route: Option<Arc<CopyRoute>>,
    /// What the rails were asked to do, if they go first.
    pub(super) rails: Option<RailPlan>,
}

impl PreparedBatch {
    /// Whether the calling thread moves it best. Large reads go to the shards: several connections
    /// filled by the ring are faster and steadier than one that is drained piece by piece.
    pub(super) fn suits_the_caller(&self) -> bool {
        let reads = self.slices.iter().filter(|(direction, _)| *direction == Direction::Read);
        let bytes: u64 = reads.flat_map(|(_, pieces)| pieces).map(|piece| piece.bytes).sum();
        let own = matches!(self.target.tcp.dialect(), Dialect::Own { .. });
        // Large ones are spread over several NICs, if there are several.
        let is_small = match self.target.tcp.addresses().len() {
            0 | 1 => bytes <= CALLER_READ_BYTES_MAX,
            _ => self.bytes() <= CALLER_READ_BYTES_MAX,
        };
        self.rails.is_none() && own && is_small
    }

    /// The run in which the peer was met, if it says.
    pub(super) fn met(&self) -> Option<u64> {
        match self.target.tcp.dialect() {
            Dialect::Own { epoch } => epoch,
            Dialect::Mooncake { .. } => None,
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        let pieces = self.slices.iter().flat_map(|(_, pieces)| pieces);
        pieces.map(|piece| piece.bytes).sum()
    }

    pub(super) fn into_slices(self) -> impl Iterator<Item = RequestSlice> {
        let batch = self.batch;
        let slices = self.slices.into_iter();
        slices.map(move |(direction, pieces)| RequestSlice::new(direction, pieces, batch.clone()))
    }
}

impl EngineState {
    fn hint(&self, options: &SubmitOptions) -> Result<RouteHint, EngineError> {
        let only_memory = Protocols { shm: true, ..Protocols::default() };
        let wanted = match options.hint.as_deref() {
            None | Some("") if Protocols::parse(&self.options.protocol)? == only_memory => {
                Some(Route::SharedMemory)
            }
            None | Some("") => None,
            Some("tcp") => Some(Route::Tcp),
            Some("rdma") => Some(Route::Rdma),
            Some("shm") => Some(Route::SharedMemory),
            Some(other) => {
                return Err(EngineError::Unsupported(format!(
                    "there is no route {other:?}; write tcp, rdma or shm, or leave the hint out"
                )));
            }
        };
        Ok(RouteHint(wanted))
    }

    pub(super) fn prepare(
        &self,
        segment: &str,
        requests: &[TransferRequest],
        options: &SubmitOptions,
        terms: Terms,
        attempt: Attempt,
    ) -> Result<PreparedBatch, EngineError> {
        let hint = self.hint(options)?;
        let plan = BatchPlan::new(requests)?;
        let target = self.segments.open(segment, due(terms), requests, attempt.met)?;
        let copy_route =
            hint.allows(Route::SharedMemory).then(|| self.copy_route(&target, &plan, hint, terms));
        let copy_route = copy_route.flatten();
        let rails = (copy_route.is_none() && hint.allows(Route::Rdma))
            .then(|| self.rail_requests(&target, &plan.slices, due(terms)))
            .flatten();
        debug_assert!(copy_route.is_none() || rails.is_none(), "a batch takes one route first");
        let route = match (&copy_route, &rails) {
            (Some(_), _) => Route::SharedMemory,
            (None, Some(_)) => Route::Rdma,
            (None, None) => Route::Tcp,
        };
        hint.check(route, segment)?;
        let at_end = self.at_end(route, &target, requests, options, attempt);
        let uses = self.local_uses(requests);
        let pieces = plan.pieces.into_iter();
        let devices = self.devices_of(requests);
        let traced = Some(TracedBatch::begin(&target, requests.len(), terms.submitted));
        let batch = Arc::new(Batch::new(pieces, uses, devices, traced, Some(at_end)));
        Ok(PreparedBatch { target, batch, slices: plan.slices, terms, copy_route, rails })
    }

    /// When a batch must be over.
    pub(super) fn terms(&self, requests: &[TransferRequest], options: &SubmitOptions) -> Terms {
        let bytes = requests.iter().fold(0u64, |sum, request| sum.saturating_add(request.bytes));
        let given = options.deadline.unwrap_or(self.options.deadline);
        let for_bytes = Duration::from_nanos(bytes.saturating_mul(SLOWEST_PER_BYTE_NS));
        let length = given.saturating_add(for_bytes).min(DEADLINE_MAX);
        let submitted = monotonic();
        Terms {
            submitted,
            due: submitted + length,
            length,
            with_checksum: self.options.with_checksum,
        }
    }

    /// What follows the last byte of a batch.
    fn at_end(
        &self,
        route: Route,
        target: &Arc<PeerSegment>,
        requests: &[TransferRequest],
        options: &SubmitOptions,
        attempt: Attempt,
    ) -> AtEnd {
        let counters = match route {
            Route::SameProcess | Route::SharedMemory => Some(self.ledger.copies()),
            Route::Tcp => first_counters(target),
            Route::Rdma => None,
        };
        let counting = BatchCounting::begin(counters, &self.options.observer, route, requests);
        let notify = options.notify.clone().filter(|_| attempt.notifies);
        let (segments, notify_sender, peer) =
            (self.segments.clone(), self.notify_sender.clone(), target.clone());
        Box::new(move |batch| {
            counting.end(batch);
            match (batch.outcome(), notify) {
                (Ok(()), Some(notify)) => notify_sender.post(peer.name(), notify),
                (Err(error), _) if error.is_peer_fault() => segments.forget(&peer),
                _ => {}
            }
        })
    }

    /// The route through memory of this host, if it reaches all of a batch.
    fn copy_route(
        &self,
        target: &Arc<PeerSegment>,
        plan: &BatchPlan,
        hint: RouteHint,
        terms: Terms,
    ) -> Option<Arc<CopyRoute>> {
        let peer = target.local.as_ref()?;
        let slices = plan.slices.iter();
        let pieces = slices.flat_map(|(way, pieces)| pieces.iter().map(move |piece| (*way, piece)));
        let ranges = pieces.clone().map(|(_, piece)| (piece.remote, piece.bytes));
        let left = terms.due.saturating_sub(monotonic());
        let memory = peer.reach(ranges, left)?;
        let mut known = KnownMappings::default();
        let is_touchable = |(way, piece): (Direction, &RequestPiece)| {
            let wanted = match way {
                Direction::Read => Use::Write,
                Direction::Write => Use::Read,
            };
            let range = (piece.local, piece.bytes);
            let region = self.registry.region(piece.local, piece.bytes);
            region.is_some_and(|region| region.is_touchable(range, wanted, &mut known))
        };
        Some(Arc::new(CopyRoute {
            memory,
            is_careful: !pieces.clone().all(is_touchable),
            may_divert: hint.0 != Some(Route::SharedMemory),
            counters: self.ledger.copies(),
            fallback: self.fallback(target, terms),
        }))
    }

    /// The batch as the rails take it, if they reach all of it.
    fn rail_requests(
        &self,
        target: &PeerSegment,
        slices: &[(Direction, Vec<RequestPiece>)],
        due: Instant,
    ) -> Option<RailPlan> {
        let (rdma, endpoint) = (self.rdma.as_ref()?, target.rails.as_ref()?);
        let remote = rdma.await_rails_of(endpoint, due);
        let mut remote = remote.filter(|remote| target.is_of_life(remote.life()))?;
        let mut requests = Vec::new();
        for (direction, piece) in
            slices.iter().flat_map(|(d, pieces)| pieces.iter().map(move |p| (*d, p)))
        {
            let region = self.registry.region(piece.local, piece.bytes)?;
            let local = region.registration()?.clone();
            let mut keys = remote.covering(piece.remote, piece.bytes).cloned();
            if keys.is_none() {
                // The peer may have registered more since.
                let newer = rdma.refreshed_rails_of(endpoint, due);
                remote = newer.filter(|remote| target.is_of_life(remote.life()))?;
                keys = remote.covering(piece.remote, piece.bytes).cloned();
            }
            requests.push(RailRequest {
                direction,
                local,
                local_address: piece.local,
                keys: keys?,
                remote_address: piece.remote,
                bytes: piece.bytes,
                tag: requests.len() as u64,
            });
        }
        (!requests.is_empty()).then(|| RailPlan {
            rails: remote,
            endpoint: endpoint.clone(),
            requests,
        })
    }

    /// The accelerators, if some local memory is theirs.
    fn devices_of(&self, requests: &[TransferRequest]) -> Option<GivenDevices> {
        let mut requests = requests.iter().filter(|request| request.bytes > 0);
        let on_device = requests.any(|request| self.is_on_device(request.local));
        self.devices.clone().filter(|_| on_device)
    }

    /// Keeps registered local buffers from being unregistered under the batch.
    fn local_uses(&self, requests: &[TransferRequest]) -> Vec<Arc<RegionUse>> {
        let mut uses: Vec<Arc<RegionUse>> = Vec::new();
        for request in requests.iter().filter(|request| request.bytes > 0) {
            let covers = |used: &Arc<RegionUse>| {
                let region = used.region();
                region.address() <= request.local && request.local < region.end()
            };
            if !uses.last().is_some_and(covers) {
                uses.extend(self.registry.use_range(request.local, request.bytes).map(Arc::new));
            }
        }
        uses
    }
}

/// The route that a hint asks for, if it asks for one; one that does not exist is an error rather
/// than a surprise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RouteHint(Option<Route>);

impl RouteHint {
    /// Whether a route may be tried.
    fn allows(self, route: Route) -> bool {
        self.0.is_none_or(|wanted| wanted == route)
    }

    /// Refuses another route than was asked for.
    fn check(self, route: Route, segment: &str) -> Result<(), EngineError> {
        let reason = match self.0 {
            Some(Route::Rdma) if route != Route::Rdma => {
                "over RDMA; register the local memory, or leave the hint out"
            }
            Some(Route::SharedMemory) if route != Route::SharedMemory => {
                "through shared memory: that takes managed buffers or segments of a process of the same user on this host, and \
                 PERIGEE_SHARED_MEMORY must not be 0; use those, or leave the hint out"
            }
            _ => return Ok(()),
        };
        Err(EngineError::Unsupported(format!("not all of the batch can go to {segment} {reason}")))
    }
}

/// Counts of the NIC that small transfers with a target go over.
fn first_counters(target: &PeerSegment) -> Option<Arc<RouteCounters>> {
    let first = target.tcp.addresses().first();
    first.map(|address| address.counters.clone())
}

/// The same moment on the other clock.
pub(super) fn due(terms: Terms) -> Instant {
    Instant::now() + terms.due.saturating_sub(monotonic())
}
