//! The engine itself: starts and closes everything, and answers what is asked about it.
//! Invariant: after [`TransferEngine::close`] no thread of the engine touches the callers' memory.

mod memory;
mod preparation;
mod retries;
mod retry_after_restart;
mod transfer;

use self::retries::Retries;
use crate::arena::Arena;
use crate::batch::table::BatchTable;
use crate::error::EngineError;
use crate::handshake_handler::HandshakeHandler;
use crate::local_name::LocalName;
use crate::memory_affinity::MemoryAffinity;
use crate::notify_inbox::NotifyInbox;
use crate::notify_sender::NotifySender;
use crate::options::EngineOptions;
use crate::peer_addresses;
use crate::rdma;
use crate::registered_memory::RegisteredMemory;
use crate::registry::MemoryRegistry;
use crate::report::RouteReport;
use crate::request::Notify;
use crate::segments::Segments;
use crate::shared_memory::{Copiers, advertise, owner};
use crate::slice::RequestSlice;
use crate::traffic_log;
use perigee_device::{GivenDevices, of_this_host};
use perigee_discovery::{
    BoundServer, Directory, DiscoveryError, Extra, HandshakeClient, HandshakeServer, OwnAddress,
    RpcMeta, SegmentDocument, interface_addresses, service_addresses,
};
use perigee_memory::shared::Owner;
use perigee_mover::{
    CounterTable, Dialects, MoveService, STOP_DEADLINE, Server, ServerContext, Shards,
    ShardsOptions,
};
use perigee_rdma::Rdma;
use perigee_schemas::Identity;
use perigee_settings::Protocols;
use perigee_shard::Periodic;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard};
use std::time::Instant;

/// A transfer engine. Clones are the same engine; all methods may be called from any thread.
#[derive(Clone)]
pub struct TransferEngine {
    inner: Arc<EngineState>,
    /// Declared last: the engine closes with its last handle, even while other threads still use
    /// it.
    _closing: Arc<Closing>,
}

/// Closes the engine when it is dropped.
struct Closing(Arc<EngineState>);

impl Drop for Closing {
    fn drop(&mut self) {
        self.0.close();
    }
}

struct EngineState {
    options: EngineOptions,
    /// Random identity of this engine's run.
    identity: Identity,
    /// What peers pass as the segment.
    name: String,
    rpc_port: u16,
    registry: Arc<MemoryRegistry>,
    batches: BatchTable,
    retries: Arc<Retries>,
    shards: Arc<Shards<RequestSlice>>,
    rdma: Option<Arc<Rdma>>,
    server: EnginePort,
    /// For engines of Mooncake, if they are served.
    upstream: Option<EnginePort>,
    directory: Directory,
    segments: Arc<Segments>,
    handshake: HandshakeServer,
    probes: HandshakeClient,
    notify_sender: Arc<NotifySender>,
    inbox: Arc<NotifyInbox>,
    ledger: Arc<CounterTable>,
    /// Hands registered segments to peers on this host, if that is allowed.
    owner: Option<Owner>,
    copiers: Copiers,
    devices: Option<GivenDevices>,
    /// Which NICs suit which memory.
    affinity: MemoryAffinity,
    /// The document without its buffers.
    document: SegmentDocument,
    /// Managed buffers, from the first one on.
    arena: Mutex<Option<Arena>>,
    /// Writes what was moved to the log, if that is wanted.
    report: Mutex<Option<Periodic>>,
    closed: AtomicBool,
    /// Held for reading by callers that move bytes themselves; closing waits for them.
    gate: RwLock<()>,
}

impl TransferEngine {
    /// Starts an engine: shards, data port, handshake port, registration at the metadata backend.
    ///
    /// # Errors
    /// A setting cannot be used, a port is taken, or the metadata backend does not answer; the
    /// message says what to change.
    pub fn start(mut options: EngineOptions) -> Result<Self, EngineError> {
        let name = LocalName::parse(&options.local_name)?;
        let affinity = MemoryAffinity::read(&options)?;
        let identity = random_identity()?;
        // The agent of this host finds the process before its first connection; without a page it
        // is not seen.
        perigee_activity::page();
        let directory = Directory::open(&options.metadata, options.discovery.clone())?;
        let place = place_of(&name, &options, &directory);
        // An engine that is known by an IPv6 address has to listen there.
        options.discovery.use_ipv6 |= place.host.parse::<Ipv6Addr>().is_ok();
        let bound = bind(&name, &options)?;
        let shards = start_shards(&options, identity)?;
        let registry = Arc::new(MemoryRegistry::default());
        let ledger = Arc::new(CounterTable::default());
        let shares = options.shares_memory;
        let owner = shares.then(|| owner(identity, registry.clone()));
        let devices = options.accelerators.clone().or_else(of_this_host);
        let rpc_port = bound.port();
        let segment = match directory.is_peer_to_peer() || name.leaves_port_open {
            true => name.with_port(rpc_port),
            false => options.local_name.clone(),
        };
        let rdma = rdma::start(&options, &segment, identity)?;
        let memory = RegisteredMemory { registry: registry.clone(), devices: devices.clone() };
        let context = ServerContext { identity, counters: ledger.clone(), shared: rdma.clone() };
        let (server, upstream) = open_ports(&options, &shards, &Arc::new(memory), &context)?;
        let ports = [Some(&server), upstream.as_ref()].map(port_of);
        let mut document = describe(&segment, &place, identity, ports);
        announce(&options, ports[0], owner.as_ref(), &mut document);
        let probes = HandshakeClient::new(&options.discovery);
        let inbox = Arc::new(NotifyInbox::default());
        let handshake = bound.serve(Arc::new(HandshakeHandler {
            directory: directory.clone(),
            inbox: inbox.clone(),
        }))?;
        let notify_sender = Arc::new(NotifySender::new(directory.clone(), probes.clone()));
        let routes = (rdma.is_some(), options.shares_memory);
        let segments = Arc::new(Segments::new(directory.clone(), ledger.clone(), routes));
        let inner = EngineState {
            report: Mutex::new(begin_report(&mut options)?),
            identity,
            rpc_port,
            registry,
            batches: BatchTable::default(),
            retries: Arc::default(),
            shards,
            rdma,
            server,
            upstream,
            segments,
            notify_sender,
            directory,
            handshake,
            probes,
            inbox,
            ledger,
            owner,
            copiers: Copiers::default(),
            devices,
            affinity,
            document,
            arena: Mutex::default(),
            closed: AtomicBool::new(false),
            gate: RwLock::new(()),
            name: segment,
            options,
        };
        Self::begin(Arc::new(inner), &place)
    }

    /// Makes an engine known that has all it needs.
    fn begin(inner: Arc<EngineState>, place: &LocalName) -> Result<Self, EngineError> {
        let speaker = Arc::downgrade(&inner);
        let compose = move || speaker.upgrade().map(|inner| inner.describe());
        inner.directory.speak_for(Box::new(compose))?;
        inner.introduce(place)?;
        let mailboxes = inner.shards.mailboxes();
        mailboxes.first().inspect(|first| inner.segments.tend(first));
        Ok(Self { _closing: Arc::new(Closing(inner.clone())), inner })
    }

    /// Ends the engine: batches in flight fail, every wait ends, connections and ports close. Calls
    /// after the first do nothing.
    pub fn close(&self) {
        self.inner.close();
    }

    /// The port of the handshake.
    pub fn rpc_port(&self) -> u16 {
        self.inner.rpc_port
    }

    /// `host:port` under which peers find the handshake of this engine.
    pub fn address(&self) -> String {
        let place = LocalName {
            host: self.inner.document.tcp_data_host.clone(),
            port: None,
            leaves_port_open: false,
        };
        place.with_port(self.inner.rpc_port)
    }

    /// Finds the owner of a segment before the first transfer needs it.
    ///
    /// # Errors
    /// It cannot be found, or offers no way that this engine knows.
    pub fn open_segment(&self, segment: &str) -> Result<(), EngineError> {
        self.inner.check_open()?;
        let due = Instant::now() + self.inner.options.deadline;
        self.inner.segments.open(segment, due, &[], None).map(drop)
    }

    /// Forgets where the owner of a segment was; the next transfer asks.
    pub fn forget_segment(&self, segment: &str) {
        self.inner.segments.forget_name(segment);
    }

    /// What peers pass as the segment to reach this engine.
    pub fn local_name(&self) -> &str {
        &self.inner.name
    }

    /// Sends a message to the owner of a segment and waits until it has it.
    ///
    /// # Errors
    /// The owner cannot be found or reached, or its queue is full.
    pub fn notify(&self, segment: &str, notify: Notify) -> Result<(), EngineError> {
        self.inner.check_open()?;
        self.inner.notify_sender.deliver(segment, notify)
    }

    /// Takes the messages that peers have sent, oldest first.
    pub fn take_notifies(&self) -> Vec<Notify> {
        self.inner.inbox.take()
    }

    /// Asks the owner of a segment whether it lives.
    ///
    /// # Errors
    /// It cannot be found or does not answer.
    pub fn probe(&self, segment: &str) -> Result<(), EngineError> {
        self.inner.check_open()?;
        Ok(self.inner.probes.probe(&self.inner.directory.rpc_meta(segment)?)?)
    }

    /// The host of a segment's owner: an address, or a name of it.
    ///
    /// # Errors
    /// It cannot be found.
    pub fn host_of(&self, segment: &str) -> Result<String, EngineError> {
        self.inner.check_open()?;
        Ok(self.inner.directory.rpc_meta(segment)?.ip_or_host_name)
    }

    /// Which NICs suit which memory, in Mooncake's JSON.
    pub fn topology_json(&self) -> String {
        self.inner.affinity.to_json()
    }

    /// What each way to other engines has carried so far: a row per NIC that sockets have used, one
    /// for shared memory if it was used, and one per RDMA device.
    pub fn rails(&self) -> Vec<RouteReport> {
        let rdma = self.inner.rdma.iter();
        let rdma = rdma.flat_map(|rdma| rdma::reports(rdma.engine()));
        let rows = self.inner.ledger.rows().into_iter();
        let tcp = rows.map(|(route, name, counters)| RouteReport::of(&name, route, &counters));
        tcp.chain(rdma).collect()
    }
}

impl EngineState {
    /// Registers name and document; both directions of the handshake work from here on.
    fn introduce(&self, place: &LocalName) -> Result<(), EngineError> {
        let meta = RpcMeta::new(&place.host, self.rpc_port);
        let meta = meta.of_life(&self.identity.to_string());
        self.directory.publish_rpc(&self.name, &meta)?;
        self.publish()
    }

    /// Publishes the document with the buffers as they are when its turn has come.
    fn publish(&self) -> Result<(), EngineError> {
        Ok(self.directory.publish_newest()?)
    }

    /// The document with the buffers as they are now.
    fn describe(&self) -> SegmentDocument {
        let mut document = self.document.clone();
        document.buffers = self.registry.describe();
        if let Some(rdma) = &self.rdma {
            rdma::describe(rdma.engine(), &mut document);
        }
        document.touch();
        document
    }

    fn check_open(&self) -> Result<(), EngineError> {
        if self.is_closed() { Err(EngineError::Closed) } else { Ok(()) }
    }

    fn is_on_device(&self, address: u64) -> bool {
        self.devices.as_ref().is_some_and(|devices| devices.0.holds(address))
    }

    fn wants_tcp(&self) -> bool {
        Protocols::parse(&self.options.protocol).is_ok_and(|wanted| wanted.tcp)
    }

    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// The right to move bytes on the calling thread.
    fn enter(&self) -> Result<RwLockReadGuard<'_, ()>, EngineError> {
        let pass = self.gate.read().unwrap_or_else(PoisonError::into_inner);
        self.check_open()?;
        Ok(pass)
    }

    fn close(&self) {
        if self.closed.swap(true, Ordering::AcqRel) {
            return;
        }
        drop(self.report.lock().unwrap_or_else(PoisonError::into_inner).take());
        self.directory.close();
        self.batches.give_up_waiting(&EngineError::Closed);
        self.handshake.close();
        self.notify_sender.close();
        self.server.stop();
        self.upstream.iter().for_each(Server::stop);
        self.copiers.close();
        self.owner.iter().for_each(|owner| owner.close(STOP_DEADLINE));
        self.rdma.iter().for_each(|rdma| rdma.close());
        self.shards.stop();
        drop(self.gate.write().unwrap_or_else(PoisonError::into_inner));
        self.segments.close();
    }
}

impl Drop for EngineState {
    fn drop(&mut self) {
        self.close();
    }
}

impl fmt::Debug for TransferEngine {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("TransferEngine")
            .field("name", &self.inner.name)
            .finish_non_exhaustive()
    }
}

/// Has the log say what is moved, if that is wanted.
fn begin_report(options: &mut EngineOptions) -> Result<Option<Periodic>, EngineError> {
    let Some(interval) = options.report_interval else {
        return Ok(None);
    };
    let begun = traffic_log::begin(interval, options.observer.clone());
    let (report, observer) = begun.map_err(|error| EngineError::Start(error.to_string()))?;
    options.observer = observer;
    Ok(Some(report))
}

fn random_identity() -> Result<Identity, EngineError> {
    let half = || getrandom::u64().map_err(|error| EngineError::Start(error.to_string()));
    Ok(Identity::from_halves(half()?, half()?))
}

/// Where peers find an engine.
fn place_of(name: &LocalName, options: &EngineOptions, directory: &Directory) -> LocalName {
    match directory.is_peer_to_peer() {
        true => name.clone(),
        false => name.at(address_for_peers(name, options)),
    }
}

/// The address of an engine whose name is a key at a metadata server. The ports of an engine are
/// open on all interfaces, so that one beside its metadata server is found from other hosts, too,
/// unless its name says loopback in digits.
fn address_for_peers(name: &LocalName, options: &EngineOptions) -> IpAddr {
    let services = service_addresses(&options.metadata);
    let own = OwnAddress::find(&name.host, &services, &options.discovery).announced;
    if own.is_loopback()
        && name.host.parse::<IpAddr>().is_err()
        && options.discovery.bind_address.is_none()
    {
        let outside = interface_addresses(options.discovery.use_ipv6);
        return outside.first().copied().unwrap_or(own);
    }
    own
}

/// The handshake port that was asked for, or another one if that is taken: peers learn the port,
/// not guess it.
fn bind(name: &LocalName, options: &EngineOptions) -> Result<BoundServer, EngineError> {
    match HandshakeServer::bind(name.port, &options.discovery) {
        Err(DiscoveryError::Port { address, reason }) => {
            tracing::info!(
                address,
                reason,
                "The port in the local name is taken; choosing another"
            );
            Ok(HandshakeServer::bind(None, &options.discovery)?)
        }
        bound => Ok(bound?),
    }
}

type EnginePort = Server<RegisteredMemory>;

/// The data port, and the one for engines of Mooncake if they are served.
fn open_ports(
    options: &EngineOptions,
    shards: &Shards<RequestSlice>,
    memory: &Arc<RegisteredMemory>,
    context: &ServerContext<Option<Arc<Rdma>>>,
) -> Result<(EnginePort, Option<EnginePort>), EngineError> {
    let address = SocketAddr::new(options.discovery.listen_address(), 0);
    let mailboxes = shards.mailboxes();
    let start = |dialect| {
        let service = MoveService::new(memory.clone(), context.clone(), dialect);
        Server::start(&mailboxes, address, &service)
    };
    let server = start(Dialects::Own)?;
    let serves = options.serve_upstream;
    let upstream = serves.then(|| start(Dialects::Mooncake)).transpose()?;
    Ok((server, upstream))
}

/// The number of a port; 0 for none.
fn port_of(server: Option<&EnginePort>) -> u16 {
    server.map_or(0, |server| server.address().port())
}

fn start_shards(
    options: &EngineOptions,
    identity: Identity,
) -> Result<Arc<Shards<RequestSlice>>, EngineError> {
    Ok(Arc::new(Shards::start(&ShardsOptions {
        name: "perigee-engine",
        count: options.shards,
        cpus: Vec::new(),
        poll: options.poll,
        identity,
        congestion: options.congestion.clone(),
    })?))
}

/// Adds to a document the interfaces and the shared memory by which this engine can be reached.
fn announce(
    options: &EngineOptions,
    port: u16,
    owner: Option<&Owner>,
    document: &mut SegmentDocument,
) {
    if let Some(extra) = &mut document.perigee {
        peer_addresses::announce(&options.devices, port, extra);
        if let Some(owner) = owner {
            advertise(owner, extra);
        }
    }
}

/// The document of an engine at `place` whose own dialect and whose upstream dialect have these
/// ports; 0 is none.
fn describe(
    segment: &str,
    place: &LocalName,
    life: Identity,
    [data_port, upstream_port]: [u16; 2],
) -> SegmentDocument {
    let mut document = SegmentDocument::new(segment, "tcp");
    document.tcp_data_host = place.host.clone();
    document.tcp_data_port = upstream_port;
    document.tcp_proto_version = 2;
    let mut extra = Extra::new(&life.to_string());
    extra.data_endpoint = place.with_port(data_port);
    document.perigee = Some(extra);
    document
}
