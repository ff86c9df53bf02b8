//! Completions come in: slices end, are sent again, or end their request; broken queue pairs go.

use super::RailShard;
use crate::active_request::ActiveRequest;
use crate::endpoint::{Endpoint, EndpointRole, PostedWork, WorkPurpose, endpoint_of};
use crate::error::RailError;
use crate::limits::{BESIDE_PAUSE, COMPLETIONS_PER_POLL, COMPLETIONS_PER_TURN};
use crate::peer::LaneState;
use crate::retry::{RetryDecision, WorkFault};
use crate::slab::SlabKey;
use crate::slice::{LanePath, RailSlice};
use perigee_activity::Direction;
use perigee_activity::{BatchMark, Route, SpanKind, Stages, batch_done};
use perigee_verbs::{CompletionStatus, VerbsError, WorkCompletion};
use std::time::Duration;

/// Why a queue pair is taken down.
#[derive(Clone, Debug)]
pub(super) struct Disconnect {
    /// The work request that failed by itself, if one did.
    pub(super) culprit: Option<u64>,
    pub(super) status: CompletionStatus,
    /// In words.
    pub(super) reason: String,
    /// Whether the pair of rails is to blame; the lane cools down then, and lanes beside it wait
    /// for it.
    pub(super) blames_rail: bool,
}

impl Disconnect {
    /// Taken down by us, for no fault of the rail.
    pub(super) fn harmless(reason: &str) -> Self {
        Self {
            culprit: None,
            status: CompletionStatus::Flushed,
            reason: reason.to_owned(),
            blames_rail: false,
        }
    }

    /// The rail does not do what it should.
    pub(super) fn blamed(reason: String) -> Self {
        Self { blames_rail: true, reason, ..Self::harmless("") }
    }
}

/// What kind of fault a completion reports for the work request that failed first.
fn fault_of(status: CompletionStatus) -> WorkFault {
    match status {
        CompletionStatus::RetryExceeded | CompletionStatus::RnrRetryExceeded => {
            WorkFault::Unanswered
        }
        CompletionStatus::RemoteAccess | CompletionStatus::RemoteInvalidRequest => {
            WorkFault::RemoteAccess
        }
        CompletionStatus::LocalProtection => WorkFault::LocalAccess,
        // A device may flush the very request that it could not do; as a fault of the rail its
        // tries are few.
        _ => WorkFault::Rail,
    }
}

impl RailShard {
    /// Takes completions off every rail; true if there were any.
    pub(super) fn reap(&mut self, now: Duration) -> bool {
        let mut worked = false;
        let mut batch = [WorkCompletion::EMPTY; COMPLETIONS_PER_POLL];
        for rail in 0..self.rails.len() {
            let mut taken = 0;
            while taken < COMPLETIONS_PER_TURN {
                let count = match self.rails[rail].queue.poll(&mut batch) {
                    Ok(count) => count,
                    Err(error) => {
                        self.lose_rail(rail, &error, now);
                        break;
                    }
                };
                for completion in &batch[..count] {
                    self.complete(rail, completion, now);
                }
                taken += count;
                worked |= count > 0;
                if count < batch.len() {
                    break;
                }
            }
        }
        worked
    }

    fn complete(&mut self, rail: usize, completion: &WorkCompletion, now: Duration) {
        let key = endpoint_of(completion.id);
        let endpoint = self.endpoints.get_mut(key);
        let Some(endpoint) = endpoint.filter(|endpoint| endpoint.knows(completion.id)) else {
            // It came twice, or its queue pair is gone and its slices were sent again.
            return self.rails[rail].cells.stray.add(1);
        };
        if !completion.status.is_success() {
            let fault = fault_of(completion.status);
            let cause = Disconnect {
                culprit: Some(completion.id),
                status: completion.status,
                reason: completion.status.to_string(),
                blames_rail: !matches!(fault, WorkFault::RemoteAccess | WorkFault::LocalAccess),
            };
            return self.break_endpoint(key, &cause, now);
        }
        endpoint.moved_at = now;
        while let Some(posted) =
            self.endpoints.get_mut(key).and_then(|own| own.pop_through(completion.id))
        {
            self.landed(key, posted, now);
        }
        if self.endpoints.get(key).is_some_and(|endpoint| endpoint.posted().is_empty()) {
            self.became_idle(key, now);
        }
    }

    fn landed(&mut self, key: SlabKey, posted: PostedWork, now: Duration) {
        let WorkPurpose::Slice(slice_key) = posted.work else {
            return;
        };
        if let Some(endpoint) = self.endpoints.get_mut(key) {
            endpoint.bandwidth.completed(now, posted.bytes);
            let rail = &mut self.rails[endpoint.rail];
            rail.bandwidth.completed(now, posted.bytes);
            rail.cells.note_latency(now.saturating_sub(posted.at));
        }
        let slice = self.slices.get_mut(slice_key);
        if !slice.is_some_and(|slice| slice.completed(posted.ticket)) {
            return;
        }
        let rail = self.endpoint(key).map_or(0, |endpoint| endpoint.rail);
        let Some(slice) = self.slices.remove(slice_key) else {
            return;
        };
        debug_assert_eq!(slice.bytes, posted.bytes, "what was posted arrived");
        if let Some(active) = self.requests.get_mut(slice.request) {
            let cells = &self.rails[rail].cells;
            let (operations, bytes) = match active.request.direction {
                Direction::Read => (&cells.reads, &cells.read_bytes),
                Direction::Write => (&cells.writes, &cells.written_bytes),
            };
            operations.add(1);
            bytes.add(slice.bytes);
            if let Some((reads, writes)) = &self.rails[rail].activity {
                let direction = active.request.direction;
                let slot = match direction {
                    Direction::Read => reads,
                    Direction::Write => writes,
                };
                let wire_ns = now.saturating_sub(posted.at).as_nanos() as u64;
                let queued = posted.at.saturating_sub(active.submitted);
                let queue_ns = queued.as_nanos() as u64;
                slot.record(slice.bytes, &Stages::whole(wire_ns, queue_ns));
                let peer = self.peers.get(&active.peer);
                let peer = peer.map_or("", |peer| peer.record.name.as_str());
                let nic = self.rails[rail].rail.name();
                let tenant = active.sink.tenant();
                let mut mark = BatchMark::new(Route::Rdma, direction, nic, peer, tenant);
                (mark.operations, mark.bytes) = (1, slice.bytes);
                (mark.queue_ns, mark.wire_ns) = (queue_ns, wire_ns);
                batch_done(&mark);
                if let Some(traced) = active.sink.traced() {
                    traced.add(SpanKind::Transfer, (nic, peer), |span| {
                        span.go_over(Route::Rdma, direction);
                        (span.count, span.parts, span.bytes) = (1, 1, slice.bytes);
                        span.queue_ns = queue_ns;
                        (now, now.saturating_sub(posted.at))
                    });
                }
            }
            active.progress.slice_moved(slice.bytes);
            active.sink.moved(active.request.tag, slice.bytes);
        }
        self.settle(slice.request);
    }

    /// Nothing is on its way on a queue pair any more.
    fn became_idle(&mut self, key: SlabKey, now: Duration) {
        let Some(endpoint) = self.endpoints.get(key) else {
            return;
        };
        let retiring = endpoint.retiring;
        match endpoint.role.clone() {
            EndpointRole::Lane { peer, lane, .. } => {
                // A queue pair whose peer has work waiting is not idle: it would be evicted before
                // its first use.
                if self.peers.get(&peer).is_none_or(|peer| peer.waiting.is_empty()) {
                    self.endpoints.release_lane(key, now);
                }
                self.judge_proof(key, peer, lane, now);
                if retiring {
                    self.close_endpoint(key, now);
                }
            }
            EndpointRole::Accepted(accepted) => {
                self.endpoints.answered(accepted, now);
            }
        }
    }

    /// Takes a queue pair down for no fault of its own.
    pub(super) fn close_endpoint(&mut self, key: SlabKey, now: Duration) {
        self.break_endpoint(key, &Disconnect::harmless("closed"), now);
    }

    /// A queue pair refused work.
    pub(super) fn refused(&mut self, key: SlabKey, error: &VerbsError, now: Duration) {
        let endpoint = self.endpoints.get(key);
        let will_complete = endpoint.is_some_and(Endpoint::awaits_completions);
        if matches!(error, VerbsError::QueueFull { .. }) && will_complete {
            // The device counts more than we do; what was refused waits for completions. Without
            // any to come it would forever.
            return self.bring_back(key);
        }
        self.break_endpoint(key, &Disconnect::blamed(error.to_string()), now);
    }

    /// Work that was set aside because no open lane could take it goes back to its place in the
    /// queue.
    fn bring_back(&mut self, key: SlabKey) {
        let role = self.endpoints.get(key).map(|endpoint| &endpoint.role);
        if let Some(EndpointRole::Lane { peer, .. }) = role
            && let Some(peer) = self.peers.get_mut(peer)
        {
            peer.waiting.bring_back();
        }
    }

    /// Takes a queue pair down. Afterwards no device touches memory for it; its slices are sent
    /// again, or end their requests.
    pub(super) fn break_endpoint(&mut self, key: SlabKey, cause: &Disconnect, now: Duration) {
        let Some(endpoint) = self.endpoints.remove(key) else {
            return;
        };
        debug_assert!(endpoint.rail < self.rails.len());
        let (rail, role) = (endpoint.rail, endpoint.role.clone());
        if cause.blames_rail {
            self.rails[rail].cells.errors.add(1);
        }
        match role {
            EndpointRole::Lane { peer, lane, remote } => {
                self.lane_down(peer, lane, cause, now);
                let rails = (rail, remote);
                self.send_again(endpoint, LanePath { lane, rails }, cause, now);
            }
            EndpointRole::Accepted(_) => {
                // Only liveness writes were on their way.
                endpoint.end();
            }
        }
    }

    fn lane_down(&mut self, number: u64, index: usize, cause: &Disconnect, now: Duration) {
        let Some(peer) = self.peers.get_mut(&number) else {
            return;
        };
        let Some(lane) = peer.lanes.get_mut(index) else {
            return;
        };
        if lane.is_up() {
            let cells = &self.rails[lane.route().local].cells;
            cells.pairs_up.set(cells.pairs_up.get().saturating_sub(1));
        }
        let was_proven = lane.is_up();
        lane.state = LaneState::Down;
        lane.endpoint = None;
        lane.reason.clone_from(&cause.reason);
        if cause.blames_rail && lane.beside.is_some() {
            peer.next_beside = now + BESIDE_PAUSE;
        } else if cause.blames_rail {
            lane.failures += 1;
            lane.health.failed(now);
            // A route that worked is tried again first; one that could not be proven makes room for
            // the next.
            lane.tried += usize::from(!was_proven);
        }
    }

    fn send_again(&mut self, endpoint: Endpoint, way: LanePath, cause: &Disconnect, now: Duration) {
        self.hold_writers(&endpoint);
        let rail = endpoint.rail;
        let mut peers = Vec::new();
        for posted in endpoint.end() {
            let WorkPurpose::Slice(slice) = posted.work else {
                continue;
            };
            self.rails[rail].bandwidth.failed(now, posted.bytes);
            let is_culprit = cause.culprit == Some(posted.ticket);
            let fault = if is_culprit { fault_of(cause.status) } else { WorkFault::Flushed };
            let peer = self.slice_failed(slice, posted.ticket, way, fault, cause, now);
            peers.extend(peer.filter(|peer| !peers.contains(peer)));
        }
        for peer in peers {
            self.sweep(peer);
            self.list(peer);
        }
        self.ask_for_fences(now);
    }

    /// Judges one failed post; returns the peer of the slice.
    fn slice_failed(
        &mut self,
        key: SlabKey,
        ticket: u64,
        way: LanePath,
        fault: WorkFault,
        cause: &Disconnect,
        now: Duration,
    ) -> Option<u64> {
        let slice = self.slices.get_mut(key)?;
        let active = self.requests.get_mut(slice.request)?;
        let limit = (self.setup.tuning.slice_tries, active.deadline);
        let verdict = slice.failed(ticket, way, fault, now, limit)?;
        let (request, peer) = (slice.request, active.peer);
        let rail = way.rails.0;
        let name = self.rails[rail].rail.name();
        if fault != WorkFault::Flushed || active.last_fault.is_empty() {
            active.last_fault = format!("{} on {name}", cause.reason);
        }
        let again = verdict == RetryDecision::Again && active.progress.failure().is_none();
        if again {
            self.rails[rail].cells.retries.add(1);
            let bytes = slice.bytes;
            let waiting = &mut self.peers.get_mut(&peer)?.waiting;
            waiting.slices.push_back(key);
            waiting.bytes += bytes;
            return Some(peer);
        }
        let peer_name = self.peers.get(&peer).map(|peer| peer.record.name.clone());
        let peer_name = peer_name.unwrap_or_default();
        let error = match verdict {
            RetryDecision::Late => late(active, peer_name),
            RetryDecision::Again | RetryDecision::GiveUp => {
                failure(active, slice, fault, cause, name, peer_name)
            }
        };
        active.progress.slice_dropped();
        let dropped = self.slices.remove(key);
        debug_assert!(dropped.is_some(), "it was a slice of the request");
        self.give_up(request, error, now);
        Some(peer)
    }
}

/// The end of a request whose time is up.
pub(super) fn late(active: &ActiveRequest, peer: String) -> RailError {
    let last_fault = match active.last_fault.as_str() {
        "" => "none".to_owned(),
        fault => fault.to_owned(),
    };
    RailError::Deadline { peer, last_fault }
}

/// The typed end of a request whose slice cannot be sent again.
fn failure(
    active: &ActiveRequest,
    slice: &RailSlice,
    fault: WorkFault,
    cause: &Disconnect,
    rail: &str,
    peer: String,
) -> RailError {
    let rail = rail.to_owned();
    let (bytes, cause) = (slice.bytes, cause.status);
    match fault {
        WorkFault::RemoteAccess => RailError::Refused {
            peer,
            rail,
            address: active.request.remote_address + slice.offset,
            bytes,
            cause,
        },
        WorkFault::LocalAccess => RailError::LocalMemory {
            rail,
            address: active.request.local_address + slice.offset,
            bytes,
            cause,
        },
        WorkFault::Unanswered | WorkFault::Flushed | WorkFault::Rail => {
            RailError::Failed { peer, rail, cause }
        }
    }
}
