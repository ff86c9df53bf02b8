//! The rails of a process: registration, peers, batches from any thread, and the shards that do the
//! work.
//!
//! Callers never touch a queue pair: they post to a shard's mailbox and hear the end from their
//! sink.

use crate::active_request::RailRequest;
use crate::cores::Cores;
use crate::descriptor::{EndpointAnswer, EndpointOffer, PeerDescriptor};
use crate::error::RailError;
use crate::joining::Joiner;
use crate::limits::{GIDS_PER_RAIL_MAX, PAIRS_PER_PEER, QUEUE_PAIRS_MAX, RAILS_MAX};
use crate::peer::PeerRecord;
use crate::preference::Preference;
use crate::rail::{Rail, RailDevice, open_rails};
use crate::registration::Registration;
use crate::report::RailReport;
use crate::shard::{BatchPart, ShardSetup};
use crate::sink::Sink;
use crate::tuning::RailTuning;
use perigee_shard::{POLL_DEFAULT, Watchdog, monotonic};
use perigee_verbs::{DmaBufRange, Fabric, RegionAccess};
use roster::{OpenedPeer, Roster};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use worker::RailWorker;
use worker::shard_error;

mod events;
pub(crate) mod exchange;
mod roster;
mod split;
mod worker;

use exchange::OfferExchange;
pub use roster::PeerHandle;

/// What an engine is started with.
#[derive(Clone, Debug)]
pub struct RailOptions {
    /// Our name in peers' messages, and what tells that a restarted process took our place.
    pub name: String,
    /// Devices to use; empty for all with an active port.
    pub devices: Vec<RailDevice>,
    /// Threads that drive queue pairs; each has its own to every peer.
    pub shards: usize,
    /// CPUs that shards are pinned to, in turn. Empty: on hosts of several NUMA nodes and enough
    /// cores those near the devices that no other engine has, unless `PERIGEE_RAIL_CPUS` says
    /// otherwise (`auto`, `off`, or a list).
    pub cpus: Vec<usize>,
    /// How long a shard polls after the last completion before it waits for events.
    pub poll: Duration,
    /// Queue pairs that each shard opens, and as many again that it accepts.
    pub queue_pairs_max: usize,
    /// Queue pairs that each shard opens to a peer of few rails; to one of many, one for each rail.
    pub queue_pairs_per_peer: usize,
    /// Most queue pairs that each shard opens over the same two rails, in place of
    /// `queue_pairs_per_peer`. All but the first are opened when that one has more to do than it
    /// takes, and at most [`crate::PAIRS_PER_PEER_MAX`] to one peer.
    pub queue_pairs_per_rail: Option<usize>,
    /// How queue pairs enter the network, and how requests are cut and tried again.
    pub tuning: RailTuning,
}

impl RailOptions {
    /// One shard over all active devices.
    pub fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            devices: Vec::new(),
            shards: 1,
            cpus: Vec::new(),
            poll: POLL_DEFAULT,
            queue_pairs_max: QUEUE_PAIRS_MAX,
            queue_pairs_per_peer: PAIRS_PER_PEER,
            queue_pairs_per_rail: None,
            tuning: RailTuning::default(),
        }
    }
}

/// Names a batch, to cancel it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BatchTicket(u64);

/// The rails of this process. Clones are the same engine; it ends with the last one, or when it is
/// closed.
#[derive(Clone, Debug)]
pub struct RailEngine {
    inner: Arc<RailEngineState>,
}

#[derive(Debug)]
struct RailEngineState {
    rails: Vec<Arc<Rail>>,
    /// Random per start.
    epoch: u64,
    workers: Vec<RailWorker>,
    watchdog: Watchdog,
    /// Where the workers run.
    _cores: Cores,
    joiner: Joiner,
    peers: Roster,
    next: AtomicU64,
    closed: AtomicBool,
}

impl RailEngine {
    /// Opens the devices and starts the shards.
    ///
    /// # Errors
    /// No device can be used, or no shard can be started.
    pub fn start(
        fabric: &dyn Fabric,
        options: &RailOptions,
        exchange: &Arc<dyn OfferExchange>,
    ) -> Result<Self, RailError> {
        let rails = open_rails(fabric, &options.devices, &options.tuning.link)?;
        let random = || getrandom::u64().map_err(|error| shard_error(&error));
        let epoch = random()?;
        let mut workers = Vec::new();
        let shards = options.shards.max(1);
        let cores = Cores::of(shards, &options.cpus, &options.devices);
        for number in 0..shards {
            let setup = ShardSetup {
                number: number as u32,
                name: options.name.clone(),
                epoch,
                queue_pairs_max: options.queue_pairs_max,
                queue_pairs_per_peer: options.queue_pairs_per_peer,
                queue_pairs_per_rail: options.queue_pairs_per_rail,
                tuning: options.tuning.clone(),
                seed: random()?,
                is_shown: true,
            };
            let place = (cores.of_shard(number), options.poll);
            let worker = RailWorker::start(setup, place, &rails, exchange)?;
            workers.push(worker);
        }
        let mailboxes = workers.iter().map(RailWorker::mailbox).collect();
        let watchdog =
            Watchdog::start("perigee-rails", mailboxes).map_err(|error| shard_error(&error))?;
        Ok(Self {
            inner: Arc::new(RailEngineState {
                rails,
                epoch,
                workers,
                watchdog,
                _cores: cores,
                joiner: Joiner::new(options.tuning.link),
                peers: Roster::default(),
                next: AtomicU64::new(1),
                closed: AtomicBool::new(false),
            }),
        })
    }

    /// What peers need to know to open this engine, with the addresses that its rails have now.
    pub fn descriptor(&self) -> PeerDescriptor {
        let rails = self.inner.rails.iter();
        PeerDescriptor { epoch: self.epoch(), rails: rails.map(|rail| rail.descriptor()).collect() }
    }

    /// What tells this engine's life from others under its name.
    pub fn epoch(&self) -> u64 {
        self.inner.epoch
    }

    /// Registers memory with every rail that suits it. Takes as long as pinning its pages does;
    /// transfers go on during it.
    ///
    /// # Safety
    /// The memory stays mapped, and no reference exists to bytes that peers may write, until the
    /// registration is revoked or dropped.
    ///
    /// # Errors
    /// A device refuses; the message names the remedy.
    pub unsafe fn register(
        &self,
        address: u64,
        bytes: u64,
        access: RegionAccess,
        preference: &Preference,
    ) -> Result<Arc<Registration>, RailError> {
        let inner = &self.inner;
        let epoch = inner.epoch;
        // SAFETY: the caller's promise is that of this function.
        let made =
            unsafe { Registration::new(&inner.rails, epoch, (address, bytes), access, preference) };
        made.map(Arc::new)
    }

    /// Registers `bytes` of another device's memory (a GPU's), given as a dma-buf, with every rail
    /// that takes it: the part that begins at `offset` in the buffer. `address` is how requests and
    /// peers name its first byte, and is not read by our processors.
    ///
    /// # Safety
    /// The part of the buffer is what lies at `address` for its device until the registration is
    /// revoked or dropped, and no code relies on bytes that peers may write.
    ///
    /// # Errors
    /// No rail takes dma-bufs ([`perigee_verbs::VerbsError::Unsupported`] within
    /// [`RailError::Device`]: stage the bytes through host memory instead), or a device refuses
    /// this one.
    pub unsafe fn register_dmabuf(
        &self,
        buffer: BorrowedFd<'_>,
        offset: u64,
        (address, bytes): (u64, u64),
        access: RegionAccess,
        preference: &Preference,
    ) -> Result<Arc<Registration>, RailError> {
        let inner = &self.inner;
        let part = DmaBufRange { offset_bytes: offset, bytes, address };
        let epoch = inner.epoch;
        // SAFETY: the caller's promise is that of this function.
        let made = unsafe {
            Registration::of_dmabuf(&inner.rails, epoch, (buffer, part), access, preference)
        };
        made.map(Arc::new)
    }

    /// Whether any rail may take dma-bufs; one that is given may still be refused.
    pub fn knows_dmabuf(&self) -> bool {
        let mut rails = self.inner.rails.iter();
        rails.any(|rail| rail.device().knows_dmabuf())
    }

    /// Makes a peer known under a name. The same engine again is the same peer, with other
    /// addresses perhaps; another engine under the name is a peer that was restarted: requests to
    /// the old one fail, and its queue pairs go.
    ///
    /// # Errors
    /// The descriptor makes no sense, or too many peers are open.
    pub fn open_peer(
        &self,
        name: &str,
        descriptor: &PeerDescriptor,
    ) -> Result<PeerHandle, RailError> {
        check_descriptor(name, descriptor)?;
        let OpenedPeer { peer, gone } = self.inner.peers.open(name, descriptor)?;
        gone.iter().for_each(|record| self.inner.drop_peer(record));
        Ok(peer)
    }

    /// Closes the queue pairs to a peer; requests to it fail.
    pub fn forget_peer(&self, peer: &PeerHandle) {
        self.inner.peers.remove(peer);
        self.inner.drop_peer(peer.record());
    }

    /// Takes down every queue pair through which the engine of this epoch reaches our memory. When
    /// this returns, none of its writes lands here any more, until it connects again.
    ///
    /// # Errors
    /// A shard does not answer.
    pub fn fence(&self, epoch: u64) -> Result<(), RailError> {
        for worker in &self.inner.workers {
            worker.ask(move |shard, now| shard.fence(epoch, now))?;
        }
        Ok(())
    }

    /// The target's side of the handshake: joins the queue pairs that a peer offers. Waits for a
    /// shard, and for a few seconds at most for addresses that do not answer on their link.
    ///
    /// # Errors
    /// The offer makes no sense, or the engine is closed.
    pub fn accept(&self, offer: EndpointOffer) -> Result<EndpointAnswer, RailError> {
        let worker = offer.shard as usize % self.inner.workers.len();
        let (worker, theirs) = (&self.inner.workers[worker], offer.clone());
        let made = worker.ask(move |shard, _| shard.make(&theirs))??;
        let joined = self.inner.joiner.join(&offer, made, monotonic);
        worker.ask(move |shard, now| shard.adopt(&offer, joined, now))?
    }

    /// Starts a batch. Each request's end is reported to the sink exactly once, at the latest soon
    /// after `deadline`, an instant of the monotonic clock. All requests are checked first: on an
    /// error none was started and the sink gets nothing.
    ///
    /// # Safety
    /// Each local range stays valid until the sink has got the end of its request.
    ///
    /// # Errors
    /// The engine is closed, the peer is not open, or a range is not covered by its registration or
    /// keys.
    pub unsafe fn submit(
        &self,
        peer: &PeerHandle,
        requests: &[RailRequest],
        deadline: Duration,
        sink: &Arc<dyn Sink>,
    ) -> Result<BatchTicket, RailError> {
        self.inner.check(peer, requests)?;
        let batch = self.inner.next.fetch_add(1, Ordering::Relaxed);
        let first = peer.record().number as usize % self.inner.workers.len();
        let parts = split::split(requests, self.inner.workers.len(), |request| request.bytes);
        for (index, part) in parts.into_iter().enumerate() {
            let submission = BatchPart {
                peer: peer.record().clone(),
                batch,
                requests: part.to_vec(),
                deadline,
                sink: sink.clone(),
            };
            let worker = &self.inner.workers[(first + index) % self.inner.workers.len()];
            worker.tell(move |shard, now| shard.submit(submission, now));
        }
        Ok(BatchTicket(batch))
    }

    /// Gives a batch up. Its sink still gets the end of each request once: that it is canceled, or
    /// its real end.
    pub fn cancel(&self, ticket: BatchTicket) {
        for worker in &self.inner.workers {
            worker.tell(move |shard, now| shard.cancel(ticket.0, now));
        }
    }

    /// What each rail has done.
    pub fn reports(&self) -> Vec<RailReport> {
        let report = |(index, rail): (usize, &Arc<Rail>)| {
            let mut report = RailReport {
                rail: rail.name().to_owned(),
                active: rail.is_active(),
                ..RailReport::default()
            };
            let cells = self.inner.workers.iter().map(|worker| &worker.cells()[index]);
            cells.for_each(|cells| report.add(cells));
            report
        };
        self.inner.rails.iter().enumerate().map(report).collect()
    }

    /// Each rail's addresses and why they rank as they do, and the state of each queue pair; one
    /// line each.
    pub fn explain(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for rail in &self.inner.rails {
            let state = if rail.is_active() { "up" } else { "down" };
            lines.push(format!("rail {}: port {state}", rail.name()));
            let addresses = rail.addresses();
            lines.extend(addresses.explain().iter().map(|line| format!("  {line}")));
        }
        for worker in &self.inner.workers {
            match worker.ask(|shard, now| shard.explain(now)) {
                Ok(more) => lines.extend(more),
                Err(error) => lines.push(error.to_string()),
            }
        }
        lines
    }

    /// The first shard that does not answer, and for how long it has not.
    pub fn stalled(&self) -> Option<(usize, Duration)> {
        self.inner.watchdog.stalled()
    }

    /// Ends the engine: requests fail, queue pairs go. When it returns, no device accesses memory
    /// for it.
    pub fn close(&self) {
        self.inner.close();
    }
}

impl RailEngineState {
    fn drop_peer(&self, record: &PeerRecord) {
        record.gone.store(true, Ordering::Release);
        let number = record.number;
        for worker in &self.workers {
            worker.tell(move |shard, now| shard.forget(number, now));
        }
    }

    fn check(&self, peer: &PeerHandle, requests: &[RailRequest]) -> Result<(), RailError> {
        if self.closed.load(Ordering::Acquire) {
            return Err(RailError::Closed);
        }
        if !peer.is_open() {
            return Err(peer.record().why_gone());
        }
        for request in requests {
            request.check()?;
            if request.keys.epoch() != peer.epoch() {
                return Err(RailError::PeerRestarted { peer: peer.name().to_owned() });
            }
        }
        Ok(())
    }

    fn close(&self) {
        if !self.closed.swap(true, Ordering::AcqRel) {
            self.workers.iter().for_each(RailWorker::begin_stop);
            self.workers.iter().for_each(RailWorker::finish_stop);
        }
    }
}

impl Drop for RailEngineState {
    fn drop(&mut self) {
        self.close();
    }
}

/// Bounds of what a peer says about itself.
fn check_descriptor(name: &str, descriptor: &PeerDescriptor) -> Result<(), RailError> {
    let bad = |reason: &str| RailError::BadDescriptor {
        peer: name.to_owned(),
        reason: reason.to_owned(),
    };
    if descriptor.rails.is_empty() {
        return Err(bad("it has no rails"));
    }
    if descriptor.rails.len() > RAILS_MAX {
        return Err(bad("it has too many rails"));
    }
    if descriptor.rails.iter().any(|rail| rail.gids.len() > GIDS_PER_RAIL_MAX) {
        return Err(bad("a rail has too many addresses"));
    }
    Ok(())
}

/// The monotonic instant that lies `length` ahead: what [`RailEngine::submit`] takes as a deadline.
pub fn deadline_in(length: Duration) -> Duration {
    monotonic().saturating_add(length)
}
