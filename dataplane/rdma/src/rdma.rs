//! The rails of a process with all that keeps them safe: what it lends, and its sessions with
//! owners.
//! Invariant: after [`Rdma::close`] no device touches memory of this process.

use crate::buffers::Buffers;
use crate::context::RdmaContext;
use crate::lent::{Lent, LentSource};
use crate::limits::{ANSWER_DEADLINE, FENCE_DEADLINE};
use crate::owner_session::{Done, SessionOrder};
use crate::owner_sessions::OwnerSessions;
use crate::pair_joiner::PairJoiner;
use crate::peers::{FirstLoad, PeerLookup, Peers};
use crate::remote::PeerRails;
use crate::stages::Stages;
use perigee_memory::{HostBuffer, Segment};
use perigee_mover::{CONNECT_DEADLINE, Names, PeerError};
use perigee_rails::{
    OfferExchange, RailDevice, RailEngine, RailError, RailOptions, RailTuning, Registration,
};
use perigee_schemas::Identity;
use perigee_shard::{poll_interruption, wait_step};
use perigee_verbs::Fabric;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// How rails are started.
#[derive(Clone, Debug)]
pub struct RdmaOptions {
    /// Random identity of this process.
    pub identity: Identity,
    /// What a restarted process has again.
    pub name: String,
    /// Threads that drive queue pairs.
    pub shards: usize,
    /// How long these threads poll after the last completion.
    pub poll: Duration,
    /// Most queue pairs of such a thread between the same two NICs, 1 to 32; `None` lets the rails
    /// choose.
    pub queue_pairs_per_rail: Option<usize>,
    /// How queue pairs enter the network, and how requests are cut and tried again.
    pub tuning: RailTuning,
    /// What new rails must have shown before they carry load.
    pub first_load: FirstLoad,
}

/// RDMA of a process.
#[derive(Debug)]
pub struct Rdma {
    engine: RailEngine,
    reach: Arc<RdmaContext>,
    sessions: Arc<OwnerSessions>,
    buffers: Buffers,
    lent: Arc<Lent>,
    joiner: Arc<PairJoiner>,
}

impl Rdma {
    /// Opens devices of a fabric; no names mean all with an active port.
    ///
    /// # Errors
    /// No device can be used, or a thread cannot be started.
    pub fn start(
        fabric: &dyn Fabric,
        devices: &[RailDevice],
        options: &RdmaOptions,
    ) -> Result<Arc<Self>, RailError> {
        let reach = Arc::new(RdmaContext {
            peers: Peers::new(options.first_load),
            names: Names::new(CONNECT_DEADLINE),
            stages: Arc::<Stages>::default(),
            engine: OnceLock::new(),
        });
        let sessions = Arc::new(OwnerSessions::start(options.identity, &reach)?);
        let exchange: Arc<dyn OfferExchange> = sessions.clone();
        let settings = RailOptions {
            devices: devices.to_vec(),
            shards: options.shards,
            poll: options.poll,
            queue_pairs_per_rail: options.queue_pairs_per_rail,
            tuning: options.tuning.clone(),
            ..RailOptions::named(&options.name)
        };
        let engine = RailEngine::start(fabric, &settings, &exchange);
        let engine = engine.inspect_err(|_| sessions.stop())?;
        let engine = reach.engine.get_or_init(|| engine).clone();
        let joiner = PairJoiner::start(&engine).map_err(|error| {
            sessions.stop();
            engine.close();
            RailError::Shard { reason: error.to_string() }
        })?;
        Ok(Arc::new(Self {
            engine,
            reach,
            sessions,
            buffers: Buffers::default(),
            lent: Arc::default(),
            joiner,
        }))
    }

    /// The rails themselves: registration, batches, reports.
    pub fn engine(&self) -> &RailEngine {
        &self.engine
    }

    /// Registered memory for bytes of memory that no device knows.
    pub fn stages(&self) -> &Arc<Stages> {
        &self.reach.stages
    }

    /// Registers memory of the caller, so that devices read and write it in place.
    ///
    /// # Safety
    /// The memory stays mapped until it is unregistered or the rails are closed.
    ///
    /// # Errors
    /// A device refuses; the message names the remedy. Transfers of the memory are copied, or go
    /// over TCP.
    pub unsafe fn register(&self, address: u64, bytes: u64) -> Result<(), RailError> {
        // SAFETY: the caller's promise is the same.
        unsafe { self.buffers.register(&self.engine, address, bytes) }
    }

    /// Ends what [`Rdma::register`] began; no device touches the memory afterwards.
    pub fn unregister(&self, address: u64) {
        self.buffers.unregister(address);
    }

    /// The registration that covers a range of this process's memory.
    pub fn registered(&self, address: u64, bytes: u64) -> Option<Arc<Registration>> {
        let found = self.buffers.find(address, bytes);
        found.or_else(|| self.lent.find(address, bytes))
    }

    /// Lets peers reach a segment, as soon as its memory is registered.
    pub fn serve(&self, id: Identity, segment: &Arc<Segment>) {
        self.lent.serve(&self.engine, id, LentSource::Segment(segment.clone()));
    }

    /// Lets peers read the memory that a disk reads into, as soon as it is registered: what it has
    /// read for them stays there until they have fetched it.
    pub fn serve_stage(&self, id: Identity, memory: &Arc<HostBuffer>) {
        self.lent.serve(&self.engine, id, LentSource::Stage(memory.clone()));
    }

    /// Ends that: when this returns, no peer reaches the segment or stage over rails.
    pub fn withdraw(&self, id: Identity) {
        self.lent.withdraw(id);
    }

    /// Lets peers reach memory, whose registration the caller keeps.
    pub fn lend(&self, id: Identity, registration: &Arc<Registration>) {
        self.lent.lend(id, registration.clone());
    }

    /// Peers no longer get the memory's keys; leases they hold run out. Its keys end when the
    /// caller revokes the registration.
    pub fn hide(&self, id: Identity) {
        self.lent.hide(id);
    }

    /// The rails of a peer, if load may go there. If nothing is known of it, it is asked in the
    /// background.
    pub fn rails_of(&self, endpoint: &Arc<str>) -> Option<Arc<PeerRails>> {
        match self.reach.peers.find(endpoint) {
            PeerLookup::Rails(rails) => Some(rails),
            PeerLookup::No => None,
            PeerLookup::Ask => {
                self.ask(endpoint, Vec::new());
                None
            }
        }
    }

    /// As [`Rdma::rails_of`], but waits for a peer that is being asked: at most until `end`, and
    /// not longer than for an answer.
    pub fn await_rails_of(&self, endpoint: &Arc<str>, end: Instant) -> Option<Arc<PeerRails>> {
        if let Some(rails) = self.rails_of(endpoint) {
            return Some(rails);
        }
        let end = end.min(Instant::now() + ANSWER_DEADLINE);
        self.reach.peers.await_rails(endpoint, end)
    }

    /// The rails of a peer after it was asked for its list again, if that is worth it: it may lend
    /// more by now. Waits as [`Rdma::await_rails_of`] does.
    pub fn refreshed_rails_of(&self, endpoint: &Arc<str>, end: Instant) -> Option<Arc<PeerRails>> {
        if !self.reach.peers.wants_refresh(endpoint) {
            return None;
        }
        let (done, asked) = Done::watched();
        self.ask(endpoint, vec![done]);
        let end = end.min(Instant::now() + ANSWER_DEADLINE);
        await_done(&asked, end).ok().filter(|is_done| *is_done)?;
        self.rails_of(endpoint)
    }

    fn ask(&self, endpoint: &Arc<str>, done: Vec<Done>) {
        let (fence, returned) = (false, Vec::new());
        self.sessions.order(endpoint, SessionOrder::Ask { fence, done, returned });
    }

    /// Returns the ticket of bytes that were read from a peer's stage, or will not be.
    pub fn return_ticket(&self, endpoint: &Arc<str>, ticket: u64) {
        let (fence, done, returned) = (false, Vec::new(), vec![ticket]);
        self.sessions.order(endpoint, SessionOrder::Ask { fence, done, returned });
    }

    /// Nothing goes over the rails of a peer for a while.
    pub fn suspend(&self, endpoint: &Arc<str>) {
        self.reach.peers.suspend(endpoint);
    }

    /// Has the queue pairs of this process at a peer taken down. When `done` gets true, nothing
    /// that was sent there over rails lands any more.
    pub fn fence(&self, endpoint: &Arc<str>, done: Done) {
        let (fence, done, returned) = (true, vec![done], Vec::new());
        self.sessions.order(endpoint, SessionOrder::Ask { fence, done, returned });
    }

    /// As [`Rdma::fence`] for several peers at once, and waits for them until `end` at most, or
    /// until the caller of this thread breaks off.
    ///
    /// # Errors
    /// A peer did not confirm it: bytes may still land there.
    pub fn fence_and_wait(
        &self,
        endpoints: &[Arc<str>],
        end: Instant,
    ) -> Vec<Result<(), PeerError>> {
        let end = end.min(Instant::now() + FENCE_DEADLINE);
        let begin = |endpoint: &Arc<str>| {
            let (done, fenced) = Done::watched();
            self.fence(endpoint, done);
            fenced
        };
        let fences: Vec<_> = endpoints.iter().map(begin).collect();
        let outcome =
            |(endpoint, fenced): (&Arc<str>, Receiver<bool>)| match await_done(&fenced, end)? {
                true => Ok(()),
                false => Err(PeerError::Broken {
                    peer: endpoint.to_string(),
                    reason: "its queue pairs could not be taken down after a fault".to_owned(),
                }),
            };
        endpoints.iter().zip(fences).map(outcome).collect()
    }

    /// Ends all sessions, takes all queue pairs down, and lets go of all memory.
    pub fn close(&self) {
        // No offer goes out any more, then no device moves anything; only then memory goes.
        self.sessions.stop();
        self.engine.close();
        self.joiner.close();
        self.lent.withdraw_all();
        self.buffers.clear();
    }

    pub(crate) fn lent(&self) -> &Lent {
        &self.lent
    }

    pub(crate) fn joiner(&self) -> &Arc<PairJoiner> {
        &self.joiner
    }
}

impl Drop for Rdma {
    fn drop(&mut self) {
        self.close();
    }
}

/// Waits for an order until `end` at most: whether it was carried out. An error if the caller of
/// this thread breaks off.
fn await_done(done: &Receiver<bool>, end: Instant) -> Result<bool, PeerError> {
    loop {
        let left = end.saturating_duration_since(Instant::now());
        match done.recv_timeout(wait_step(left)) {
            Ok(is_done) => return Ok(is_done),
            Err(RecvTimeoutError::Timeout) if poll_interruption() => {
                return Err(PeerError::Canceled);
            }
            Err(RecvTimeoutError::Timeout) if !left.is_zero() => {}
            Err(_) => return Ok(false),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perigee_shard::interruptible;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn a_wait_for_an_order_ends_by_answer_deadline_or_interruption() {
        let (done, heard) = Done::watched();
        assert_eq!(await_done(&heard, Instant::now()), Ok(false));
        let end = Instant::now() + LONG;
        {
            let _breaks_off = interruptible(|| true);
            assert_eq!(await_done(&heard, end), Err(PeerError::Canceled));
        }
        drop(done);
        assert_eq!(await_done(&heard, end), Ok(false), "it was lost");
        assert!(Instant::now() < end);
    }
}
