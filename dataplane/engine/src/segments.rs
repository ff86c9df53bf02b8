//! Peers' segments by name: their documents turned into targets, kept until a transfer shows that
//! they are out of date.
//! Invariant: a name has at most one target at a time.

use crate::error::EngineError;
use crate::limits::{CONNECTION_SWEEP, TARGETS_MAX};
use crate::peer_addresses;
use crate::question::ask;
use crate::request::TransferRequest;
use crate::restarts::Restarts;
use crate::shared_memory::local_peer::LocalPeer;
use crate::target::PeerSegment;
use perigee_discovery::{Directory, SegmentDocument, resolve};
use perigee_memory::shared::Guest;
use perigee_mover::{CounterTable, Dialect, PeerAddress, PeerError};
use perigee_shard::{Environment, Mailbox};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};
use std::time::{Duration, Instant};

/// All peers that were talked to.
#[derive(Debug)]
pub(crate) struct Segments {
    directory: Directory,
    /// Whether peers may be reached over RDMA.
    uses_rdma: bool,
    targets: RwLock<HashMap<String, Arc<PeerSegment>>>,
    restarts: Mutex<Restarts>,
    /// Whether some caller is still to hear of a peer's restart.
    unreported: AtomicBool,
    closed: AtomicBool,
    ledger: Arc<CounterTable>,
    /// Maps the memory of peers on this host, if that is allowed.
    guest: Option<Arc<Guest>>,
}

impl Segments {
    pub(crate) fn new(
        directory: Directory,
        ledger: Arc<CounterTable>,
        (uses_rdma, shares_memory): (bool, bool),
    ) -> Self {
        Self {
            directory,
            uses_rdma,
            closed: AtomicBool::new(false),
            targets: RwLock::default(),
            restarts: Mutex::default(),
            unreported: AtomicBool::new(false),
            ledger,
            guest: shares_memory.then(Arc::default),
        }
    }

    /// The target of a name; asks for its document if there is none yet, at most until `due`.
    /// Requests that were tried before, when the peer was in the run `met`, must not be meant for
    /// that run if it is over.
    pub(crate) fn open(
        &self,
        name: &str,
        due: Instant,
        requests: &[TransferRequest],
        met: Option<u64>,
    ) -> Result<Arc<PeerSegment>, EngineError> {
        let target = self.open_any(name, due, requests)?;
        let is_asked = met.is_some() || self.unreported.load(Ordering::Acquire);
        if is_asked && self.refuses(name, met, requests) {
            return Err(EngineError::Peer(PeerError::Restarted { peer: name.to_owned() }));
        }
        Ok(target)
    }

    /// Whether requests may be meant for an earlier run of the peer; the next status reports it.
    fn refuses(&self, name: &str, met: Option<u64>, requests: &[TransferRequest]) -> bool {
        let mut restarts = self.restarts();
        let refused = restarts.refuse(name, met, requests);
        self.unreported.fetch_or(refused, Ordering::Release);
        refused
    }

    /// A caller has got an error; if it is that a peer has restarted, what it asks from now on is
    /// meant for the present run.
    pub(crate) fn note_reported(&self, error: &EngineError) {
        if let EngineError::Peer(PeerError::Restarted { peer }) = error {
            let mut restarts = self.restarts();
            if restarts.note_reported(peer) {
                self.unreported.store(false, Ordering::Release);
            }
        }
    }

    fn restarts(&self) -> MutexGuard<'_, Restarts> {
        self.restarts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open_any(
        &self,
        name: &str,
        due: Instant,
        requests: &[TransferRequest],
    ) -> Result<Arc<PeerSegment>, EngineError> {
        let known = self.targets.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned();
        if let Some(target) = known {
            return Ok(target);
        }
        let target = Arc::new(self.find(name, due, requests)?);
        let mut targets = self.targets.write().unwrap_or_else(PoisonError::into_inner);
        if targets.len() >= TARGETS_MAX {
            // Each run of a peer that chose its port is another name.
            let unused = targets.extract_if(|_, target| Arc::strong_count(target) == 1);
            unused.for_each(|(_, target)| target.close());
        }
        Ok(targets.entry(name.to_owned()).or_insert(target).clone())
    }

    /// The next transfer asks for the document again.
    pub(crate) fn forget(&self, target: &Arc<PeerSegment>) {
        let mut targets = self.targets.write().unwrap_or_else(PoisonError::into_inner);
        if targets.get(&**target.name()).is_some_and(|known| Arc::ptr_eq(known, target)) {
            targets.remove(&**target.name());
            self.directory.forget(target.name());
        }
        drop(targets);
        target.close();
    }

    /// As [`Segments::forget`], of whatever has the name.
    pub(crate) fn forget_name(&self, name: &str) {
        let known = self.targets.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned();
        match known {
            Some(target) => self.forget(&target),
            None => self.directory.forget(name),
        }
    }

    /// The present document of a name, for a caller who waits no longer than `limit`.
    pub(crate) fn document_within(
        &self,
        name: &str,
        limit: Duration,
    ) -> Result<Arc<SegmentDocument>, EngineError> {
        self.ask(name, move |directory, name| Ok(directory.reload_within(name, limit)?))
    }

    /// Has a shard close idle connections of peers that have gone.
    pub(crate) fn tend(self: &Arc<Self>, shard: &Mailbox) {
        let segments = Arc::downgrade(self);
        shard.post(Box::new(move |environment| {
            environment.spawn(Self::sweep(segments, environment.clone()));
        }));
    }

    /// Closes idle connections and mappings of peers that have gone, now and then, as long as there
    /// are segments.
    async fn sweep<E: Environment>(segments: Weak<Self>, environment: E) {
        loop {
            environment.sleep(CONNECTION_SWEEP).await;
            let Some(segments) = segments.upgrade().filter(|all| !all.is_closed()) else {
                return;
            };
            let targets = segments.targets.read().unwrap_or_else(PoisonError::into_inner);
            targets.values().for_each(|target| target.tcp.sweep());
            segments.guest.iter().for_each(|guest| guest.sweep());
        }
    }

    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Closes all idle connections.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        let mut targets = self.targets.write().unwrap_or_else(PoisonError::into_inner);
        targets.drain().for_each(|(_, target)| target.close());
    }

    fn find(
        &self,
        name: &str,
        due: Instant,
        requests: &[TransferRequest],
    ) -> Result<PeerSegment, EngineError> {
        let left = due.saturating_duration_since(Instant::now());
        let document =
            self.ask(name, move |directory, name| Ok(directory.segment_within(name, left)?))?;
        let own = document.perigee.as_ref().filter(|extra| !extra.data_endpoint.is_empty());
        if let Some(extra) = own {
            let epoch =
                u128::from_str_radix(&extra.epoch, 16).map_err(|_| unusable(name, "epoch"))?;
            let epoch = epoch as u64;
            self.meet(name, epoch, &document, requests)?;
            let mut addresses = peer_addresses::announced(extra);
            if addresses.is_empty() {
                let endpoint = self.seen_from_here(name, &extra.data_endpoint);
                addresses
                    .push(self.ask(name, move |_, name| resolve_endpoint(name, &endpoint, due))?);
            }
            let mut target = self.target(name, &addresses, Dialect::Own { epoch: Some(epoch) });
            let has_rails = self.uses_rdma && !extra.rails.is_empty();
            target.rails = has_rails.then(|| Arc::from(extra.data_endpoint.as_str()));
            let guest = self.guest.as_ref();
            target.local = guest.and_then(|guest| LocalPeer::of(extra, guest));
            return Ok(target);
        }
        if document.tcp_data_port == 0 {
            return Err(EngineError::Unsupported(format!("peer {name} offers no TCP data port")));
        }
        let host = self.data_host(name, &document)?;
        let dialect = Dialect::Mooncake { with_status: document.tcp_proto_version >= 2 };
        let port = document.tcp_data_port;
        let address = self.ask(name, move |_, name| first_address(name, &host, port, due))?;
        Ok(self.target(name, &[address], dialect))
    }

    fn target(&self, name: &str, addresses: &[SocketAddr], dialect: Dialect) -> PeerSegment {
        let address = |address: &SocketAddr| PeerAddress {
            address: *address,
            counters: self.ledger.towards(*address),
        };
        let addresses = addresses.iter().map(address).collect();
        PeerSegment {
            tcp: Arc::new(perigee_mover::Target::new(name, addresses, dialect)),
            rails: None,
            local: None,
        }
    }

    /// Notes the run of a peer. Requests for addresses that may be of an earlier run are refused
    /// once, before any byte goes to the new one; also those that come after others that may not.
    fn meet(
        &self,
        name: &str,
        epoch: u64,
        document: &SegmentDocument,
        requests: &[TransferRequest],
    ) -> Result<(), EngineError> {
        let mut restarts = self.restarts();
        let may_be_old = restarts.meet(name, epoch, document, requests);
        self.unreported.fetch_or(restarts.has_unreported(), Ordering::Release);
        drop(restarts);
        if may_be_old {
            self.directory.forget(name);
            return Err(EngineError::Peer(PeerError::Restarted { peer: name.to_owned() }));
        }
        Ok(())
    }

    /// A host, or a host and port, that a peer announces: where it says loopback and was asked at
    /// another address, that one.
    fn seen_from_here(&self, name: &str, announced: &str) -> String {
        match self.directory.is_peer_to_peer() {
            true => peer_addresses::seen_from(name, announced),
            false => announced.to_owned(),
        }
    }

    fn data_host(&self, name: &str, document: &SegmentDocument) -> Result<String, EngineError> {
        if !document.tcp_data_host.is_empty() {
            return Ok(self.seen_from_here(name, &document.tcp_data_host));
        }
        self.ask(name, |directory, name| Ok(directory.rpc_meta(name)?.ip_or_host_name))
    }

    /// The answer to a question about a name, which its caller need not wait for to the end.
    fn ask<T: Send + 'static>(
        &self,
        name: &str,
        question: impl FnOnce(&Directory, &str) -> Result<T, EngineError> + Send + 'static,
    ) -> Result<T, EngineError> {
        let (directory, name) = (self.directory.clone(), name.to_owned());
        ask(move || question(&directory, &name))
    }
}

fn unusable(name: &str, what: &str) -> EngineError {
    EngineError::Metadata(format!("the document of {name} has an unusable {what}"))
}

/// The first address behind a `host:port`.
fn resolve_endpoint(name: &str, endpoint: &str, due: Instant) -> Result<SocketAddr, EngineError> {
    let (host, port) = endpoint
        .rsplit_once(':')
        .and_then(|(host, port)| Some((host, port.parse().ok()?)))
        .ok_or_else(|| unusable(name, "data endpoint"))?;
    first_address(name, host.trim_matches(['[', ']']), port, due)
}

fn first_address(
    name: &str,
    host: &str,
    port: u16,
    due: Instant,
) -> Result<SocketAddr, EngineError> {
    let found = resolve(host, port, due).and_then(|all| {
        let first = all.first().copied();
        first.ok_or_else(|| "the name has no address".to_owned())
    });
    found.map_err(|reason| EngineError::Resolve { peer: name.to_owned(), reason })
}
