//! Everything a software network is at one moment: tables, clock, and what falls due when.
//! Invariant: work of one queue pair ends in the order of posting, and each work request ends once
//! (a planned duplicate apart).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use crate::error::VerbsError;
use crate::pair_state::QueuePairState;
use crate::queue::{ConnectOptions, EndpointAddress, QueuePairOptions};
use crate::work::{CompletionStatus, Sge, WorkCompletion};

use super::port::SoftwarePort;
use super::region::LiveRegion;
use super::signal::EventPipe;
use super::stray::{Stray, Strays};
use super::transfer::{self, AttemptOutcome};

/// First number of a queue pair; small ones are special on InfiniBand.
const FIRST_QUEUE_PAIR: u32 = 0x100;

#[derive(Debug, Default)]
pub(crate) struct FabricState {
    now: Duration,
    pub(super) poll_step: Duration,
    serial: u64,
    pub(super) ports: Vec<SoftwarePort>,
    pub(super) pairs: BTreeMap<u32, PairState>,
    pub(super) queues: BTreeMap<u64, CompletionQueueState>,
    pub(super) regions: BTreeMap<u32, LiveRegion>,
    cut: BTreeSet<(usize, usize)>,
    due: BTreeMap<(Duration, u64), u32>,
    pub(super) strays: Strays,
}

/// A queue pair.
#[derive(Debug)]
pub(super) struct PairState {
    pub(super) port: usize,
    /// The opening, which is the protection domain.
    pub(super) domain: u64,
    pub(super) queue: u64,
    pub(super) options: QueuePairOptions,
    pub(super) state: QueuePairState,
    pub(super) peer: Option<(EndpointAddress, ConnectOptions)>,
    pub(super) pending: VecDeque<PostedRequest>,
    /// Entries of the send queue that are taken.
    pub(super) held: u32,
    /// Requests that ended silently since the last completion.
    silent: u32,
    /// When the last request posted is over.
    last_due: Duration,
    /// Requests posted here so far, which is the place of the next one in the order of packets.
    posted: u64,
    /// Requests of the other end that have been carried out here: the next packet that is taken.
    pub(super) received: u64,
}

#[derive(Debug)]
pub(super) struct CompletionQueueState {
    pub(super) entries: u32,
    /// Completions with the send entries each one gives back.
    pub(super) ready: VecDeque<(WorkCompletion, u32)>,
    pub(super) armed: bool,
    pub(super) overrun: bool,
    pub(super) signal: Arc<EventPipe>,
}

/// A work request under way.
#[derive(Debug)]
pub(super) struct PostedRequest {
    serial: u64,
    pub(super) id: u64,
    pub(super) local: LocalBytes,
    pub(super) remote_address: u64,
    pub(super) remote_key: u32,
    pub(super) signaled: bool,
    pub(super) vanishes: bool,
    pub(super) flushes: bool,
    pub(super) order: u64,
    attempts: u8,
    ready: bool,
}

/// The local side of a work request.
#[derive(Debug)]
pub(super) enum LocalBytes {
    Read(Vec<Sge>),
    Write(Vec<Sge>),
    Inline(Vec<u8>),
}

impl LocalBytes {
    pub(super) fn bytes(&self) -> u64 {
        match self {
            LocalBytes::Read(pieces) | LocalBytes::Write(pieces) => {
                pieces.iter().map(|piece| u64::from(piece.bytes)).sum()
            }
            LocalBytes::Inline(data) => data.len() as u64,
        }
    }
}

impl PairState {
    pub(super) fn new(
        port: usize,
        domain: u64,
        queue: u64,
        options: QueuePairOptions,
    ) -> PairState {
        PairState {
            port,
            domain,
            queue,
            options,
            state: QueuePairState::Unconnected,
            peer: None,
            pending: VecDeque::new(),
            held: 0,
            silent: 0,
            last_due: Duration::ZERO,
            posted: 0,
            received: 0,
        }
    }

    /// How long one attempt waits for an answer.
    fn patience(&self) -> Duration {
        const UNIT_NS: u64 = 4096;
        let exponent = self.peer.map_or(0, |(_, options)| options.timeout_exponent);
        Duration::from_nanos(UNIT_NS << exponent.min(crate::limits::TIMEOUT_EXPONENT_MAX))
    }
}

/// Clock and schedule.
impl FabricState {
    pub(super) fn now(&self) -> Duration {
        self.now
    }

    pub(super) fn set_now(&mut self, now: Duration) {
        self.now = self.now.max(now);
    }

    pub(super) fn next_due(&self) -> Option<Duration> {
        let work = self.due.first_key_value().map(|((at, _), _)| *at);
        work.into_iter().chain(self.strays.next_due()).min()
    }

    /// A number that was never given out before.
    pub(super) fn next_serial(&mut self) -> u64 {
        self.serial += 1;
        self.serial
    }

    /// Does all that is due by now.
    pub(super) fn run_due(&mut self) {
        self.run_until(self.now);
    }

    /// Does all that is due until `until`, and leaves the clock there.
    pub(super) fn run_until(&mut self, until: Duration) {
        while let Some(at) = self.next_due().filter(|at| *at <= until) {
            self.set_now(at);
            if let Some(stray) = self.strays.take_due(at) {
                stray.arrive(self);
                continue;
            }
            if let Some(((_, serial), pair)) = self.due.pop_first() {
                self.fall_due(pair, serial);
            }
        }
        self.set_now(until);
    }

    /// Marks one request as due and ends all that are due at the head of its queue pair.
    fn fall_due(&mut self, number: u32, serial: u64) {
        let Some(pair) = self.pairs.get_mut(&number) else {
            return;
        };
        if let Some(posted) = pair.pending.iter_mut().find(|posted| posted.serial == serial) {
            posted.ready = true;
        }
        while let Some(pair) = self.pairs.get(&number) {
            let Some(head) = pair.pending.front().filter(|head| head.ready) else {
                return;
            };
            let lost = strikes(&mut self.ports[pair.port].planned.drop_attempts);
            let outcome = if head.flushes {
                AttemptOutcome::Ended(CompletionStatus::Flushed)
            } else if lost {
                AttemptOutcome::NoAnswer
            } else {
                transfer::attempt(self, pair, number, head)
            };
            match outcome {
                AttemptOutcome::Ended(status) => {
                    self.count_received(number, status);
                    self.end_head(number, status);
                }
                AttemptOutcome::NoAnswer => return self.retry_head(number),
                AttemptOutcome::Refused { peer } => {
                    self.end_head(number, CompletionStatus::RemoteAccess);
                    self.fail_queue_pair(peer);
                }
            }
        }
    }

    fn count_received(&mut self, number: u32, status: CompletionStatus) {
        let peer = self.pairs.get(&number).and_then(|pair| pair.peer);
        let Some((endpoint, _)) = peer.filter(|_| status.is_success()) else {
            return;
        };
        let order = self.pairs.get(&number).and_then(|pair| pair.pending.front());
        let next = order.map_or(0, |head| head.order + 1);
        if let Some(peer) = self.pairs.get_mut(&endpoint.queue_pair) {
            peer.received = next;
        }
    }

    fn retry_head(&mut self, number: u32) {
        let (now, serial) = (self.now, self.next_serial());
        let Some(pair) = self.pairs.get_mut(&number) else {
            return;
        };
        let retries = pair.peer.map_or(0, |(_, options)| options.retries);
        let patience = pair.patience();
        let Some(head) = pair.pending.front_mut() else {
            return;
        };
        if head.attempts > retries {
            return self.end_head(number, CompletionStatus::RetryExceeded);
        }
        head.attempts += 1;
        head.ready = false;
        head.serial = serial;
        self.due.insert((now + patience, serial), number);
    }
}

/// Work.
impl FabricState {
    /// Puts one request on its way. The caller has checked state and room.
    pub(super) fn post(&mut self, number: u32, mut posted: PostedRequest) {
        let serial = self.next_serial();
        posted.serial = serial;
        let peer_port = self.peer_port(number);
        let Some(pair) = self.pairs.get_mut(&number) else {
            return;
        };
        let bytes = posted.local.bytes();
        let mut over = self.now.max(pair.last_due);
        for port in [Some(pair.port), peer_port].into_iter().flatten() {
            let port = &mut self.ports[port];
            let free = self.now.max(port.busy_until) + port.time_of(bytes);
            port.busy_until = free;
            over = over.max(free + port.delay);
        }
        let planned = &mut self.ports[pair.port].planned;
        posted.vanishes = planned.drop_all || strikes(&mut planned.drop_requests);
        posted.flushes = strikes(&mut planned.flush);
        if strikes(&mut planned.corrupt_keys) {
            posted.remote_key = !posted.remote_key;
        }
        pair.held += 1;
        pair.last_due = over;
        posted.order = pair.posted;
        pair.posted += 1;
        if let Some(delay) = planned.strand {
            posted.vanishes = true;
            let at = self.now + delay;
            let stray = Stray::of(self, number, &posted);
            self.strays.add(at, serial, stray);
        }
        let Some(pair) = self.pairs.get_mut(&number) else {
            return;
        };
        pair.pending.push_back(posted);
        self.due.insert((over, serial), number);
    }

    fn peer_port(&self, number: u32) -> Option<usize> {
        let (endpoint, _) = self.pairs.get(&number)?.peer?;
        Some(self.pairs.get(&endpoint.queue_pair)?.port)
    }

    /// Ends the oldest request of a queue pair; anything but success fails the queue pair.
    fn end_head(&mut self, number: u32, status: CompletionStatus) {
        let Some(pair) = self.pairs.get_mut(&number) else {
            return;
        };
        let Some(head) = pair.pending.pop_front() else {
            return;
        };
        pair.silent += 1;
        if head.signaled || !status.is_success() {
            let (queue, port) = (pair.queue, pair.port);
            let releases = std::mem::take(&mut pair.silent);
            let completion = WorkCompletion {
                id: head.id,
                status,
                bytes: read_bytes(&head.local, status),
                queue_pair: number,
            };
            self.complete(queue, completion, releases);
            if status.is_success() && strikes(&mut self.ports[port].planned.duplicate) {
                self.complete(queue, completion, 0);
            }
        }
        if !status.is_success() {
            self.fail_queue_pair(number);
        }
    }

    fn complete(&mut self, queue: u64, completion: WorkCompletion, releases: u32) {
        let Some(queue) = self.queues.get_mut(&queue) else {
            return;
        };
        if queue.ready.len() >= queue.entries as usize {
            queue.overrun = true;
            return;
        }
        queue.ready.push_back((completion, releases));
        if std::mem::replace(&mut queue.armed, false) {
            queue.signal.raise();
        }
    }

    /// Takes completions, giving back the send entries that they cover.
    pub(super) fn take_completions(
        &mut self,
        queue: u64,
        into: &mut [WorkCompletion],
    ) -> Option<usize> {
        let queue = self.queues.get_mut(&queue).filter(|queue| !queue.overrun)?;
        let mut taken = 0;
        while taken < into.len() {
            let Some((completion, releases)) = queue.ready.pop_front() else {
                break;
            };
            into[taken] = completion;
            taken += 1;
            if let Some(pair) = self.pairs.get_mut(&completion.queue_pair) {
                pair.held = pair.held.saturating_sub(releases);
            }
        }
        Some(taken)
    }

    /// Moves a queue pair to the error state and flushes what waits on it.
    pub(super) fn fail_queue_pair(&mut self, number: u32) {
        let Some(pair) = self.pairs.get_mut(&number) else {
            return;
        };
        pair.state = QueuePairState::Failed;
        while self.pairs.get(&number).is_some_and(|pair| !pair.pending.is_empty()) {
            self.end_head(number, CompletionStatus::Flushed);
        }
    }
}

/// Hosts, devices and wires.
impl FabricState {
    pub(super) fn find_port(&self, host: &str, device: &str) -> Result<usize, VerbsError> {
        let found =
            self.ports.iter().position(|port| port.host == host && port.info.name == device);
        found.ok_or_else(|| VerbsError::UnknownDevice {
            name: device.to_owned(),
            known: self.device_names(host),
        })
    }

    pub(super) fn device_names(&self, host: &str) -> Vec<String> {
        let own = self.ports.iter().filter(|port| port.host == host);
        let mut names: Vec<String> = own.map(|port| port.info.name.clone()).collect();
        names.sort();
        names
    }

    pub(super) fn set_wire(&mut self, a: usize, b: usize, cut: bool) {
        let wire = (a.min(b), a.max(b));
        if cut {
            self.cut.insert(wire);
        } else {
            self.cut.remove(&wire);
        }
    }

    pub(super) fn is_cut(&self, a: usize, b: usize) -> bool {
        self.cut.contains(&(a.min(b), a.max(b)))
    }

    /// Fails every queue pair of one device.
    pub(super) fn fail_port(&mut self, port: usize) {
        let own = self.pairs.iter().filter(|(_, pair)| pair.port == port);
        let numbers: Vec<u32> = own.map(|(number, _)| *number).collect();
        for number in numbers {
            self.fail_queue_pair(number);
        }
    }

    /// Makes everything useless that was opened on a device before.
    pub(super) fn new_epoch(&mut self, port: usize) {
        self.ports[port].epoch += 1;
        self.ports[port].queue_pairs = 0;
        self.ports[port].openings.clear();
        self.pairs.retain(|_, pair| pair.port != port);
        self.regions.retain(|_, region| region.port != port);
    }

    pub(super) fn restart(&mut self, host: &str) {
        for port in 0..self.ports.len() {
            if self.ports[port].host == host {
                self.new_epoch(port);
            }
        }
    }

    /// A number for a queue pair, never used before.
    pub(super) fn next_queue_pair(&mut self) -> u32 {
        let serial = self.next_serial();
        u32::try_from(serial).unwrap_or(u32::MAX) + FIRST_QUEUE_PAIR
    }
}

impl PostedRequest {
    pub(super) fn new(
        id: u64,
        local: LocalBytes,
        remote: (u64, u32),
        signaled: bool,
    ) -> PostedRequest {
        PostedRequest {
            serial: 0,
            id,
            local,
            remote_address: remote.0,
            remote_key: remote.1,
            signaled,
            vanishes: false,
            flushes: false,
            order: 0,
            attempts: 0,
            ready: false,
        }
    }
}

/// Counts a planned fault down; true if it strikes now.
pub(super) fn strikes(count: &mut u64) -> bool {
    let strikes = *count > 0;
    *count = count.saturating_sub(1);
    strikes
}

fn read_bytes(local: &LocalBytes, status: CompletionStatus) -> u32 {
    match local {
        LocalBytes::Read(_) if status.is_success() => {
            u32::try_from(local.bytes()).unwrap_or(u32::MAX)
        }
        _ => 0,
    }
}
