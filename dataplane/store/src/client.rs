//! One client of a cluster: opening, joining, closing. Invariant: whatever was joined is left again
//! by [`Store::close`].

mod addresses;
mod keys;
mod memory;
mod tasks;

use crate::addresses::SegmentAddresses;
use crate::api::StoreConfig;
use crate::caller_memory::CallerMemory;
use crate::counting::Counting;
use crate::disks::Disks;
use crate::donation::Donation;
use crate::environment::StoreEnvironment;
use crate::error::StoreError;
use crate::heartbeat::{Heartbeat, HeartbeatNotify};
use crate::host::{client_name, has_port, host_of, random_identity};
use crate::ledger::LedgerKeeper;
use crate::metadata::ClientRecords;
use crate::mover::ReplicaMover;
use crate::ports::PortClaims;
use crate::rdma;
use crate::refusals::Refusals;
use crate::traffic_log;
use crate::unreachable::UnreachableOwners;
use perigee_activity::counting_as;
use perigee_discovery::{OwnAddress, service_addresses};
use perigee_memory::shared::host_id;
use perigee_metrics::{ClientCells, RpcKind};
use perigee_rdma::Rdma;
use perigee_rpc::{CallError, ClientOptions, LentSegments, MasterClient};
use perigee_schemas::session::Role;
use perigee_schemas::tenant::TenantError;
use perigee_schemas::{Identity, Status, TenantId};
use perigee_settings::SettingError;
use perigee_shard::{Periodic, monotonic};
use perigee_transfer::{ObjectEngine, ObjectEngineOptions};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// One client. Shared by all threads of a process.
#[derive(Debug)]
pub struct Store {
    config: StoreConfig,
    name: String,
    pub(crate) host_id: String,
    pub(crate) master: Arc<MasterClient>,
    pub(crate) engine: Arc<ObjectEngine>,
    pub(crate) addresses: Arc<SegmentAddresses>,
    pub(crate) cells: Arc<ClientCells>,
    donation: Arc<Donation>,
    rdma: Option<Arc<Rdma>>,
    registration: Arc<ClientRecords>,
    mover: Arc<ReplicaMover>,
    pub(crate) ledger: Arc<LedgerKeeper>,
    heartbeat_notify: Arc<HeartbeatNotify>,
    pub(crate) disks: Arc<Disks>,
    heartbeat: Mutex<Option<Heartbeat>>,
    pub(crate) memory: CallerMemory,
    pub(crate) refusals: Refusals,
    pub(crate) unreachable: Arc<UnreachableOwners>,
    /// Requests for objects on disks.
    pub(crate) disk_requests: AtomicU64,
    open: AtomicBool,
    shows_metrics: bool,
    report_interval: Option<Duration>,
    report: Mutex<Option<Periodic>>,
}

/// How this client calls its master.
fn calls(
    config: &StoreConfig,
    identity: Identity,
    environment: &StoreEnvironment,
) -> Result<ClientOptions, StoreError> {
    let tenant = TenantId::parse(&config.tenant_id);
    let wrong =
        |error: TenantError| SettingError::new("tenant_id", &config.tenant_id, error.to_string());
    Ok(ClientOptions {
        address: config.master_server_address.clone(),
        role: if config.global_segment_bytes > 0 { Role::Node } else { Role::Client },
        client: identity,
        tenant: tenant.map_err(wrong)?,
        deadline: environment.call_deadline,
        connect_deadline: environment.connect_deadline,
    })
}

/// How this client moves bytes.
fn engine_options(
    identity: Identity,
    host_id: &str,
    environment: &StoreEnvironment,
    rdma: Option<&Arc<Rdma>>,
    cells: &Arc<ClientCells>,
    tenant: &TenantId,
) -> ObjectEngineOptions {
    ObjectEngineOptions {
        identity,
        host_id: host_id.to_owned(),
        routes: environment.routes,
        shards: environment.client_shards,
        deadline: environment.transfer_deadline,
        congestion: environment.congestion.clone(),
        tenant: if tenant.is_default() { Arc::default() } else { tenant.name().into() },
        rdma: rdma.cloned(),
        observer: Arc::new(Counting(cells.clone())),
    }
}

impl Store {
    /// Opens a client with the settings of the environment.
    ///
    /// # Errors
    /// A setting is wrong, the master does not answer, or memory cannot be allocated; the message
    /// says what to change.
    pub fn open(config: StoreConfig) -> Result<Self, StoreError> {
        Self::open_with(config, &StoreEnvironment::read()?)
    }

    /// Opens a client.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub fn open_with(
        config: StoreConfig,
        environment: &StoreEnvironment,
    ) -> Result<Self, StoreError> {
        let store = Self::prepare(config, environment)?;
        if let Err(error) = store.join_cluster() {
            store.close();
            return Err(error);
        }
        Ok(store)
    }

    fn prepare(config: StoreConfig, environment: &StoreEnvironment) -> Result<Self, StoreError> {
        // Asked now, because a client that lends nothing starts its shards when it needs them.
        perigee_shard::choice()?;
        let claims = PortClaims::take(environment, has_port(&config.local_hostname))?;
        let address = address_for_peers(&config, environment);
        let name = client_name(&config.local_hostname, claims.name_port(), address.announced)?;
        let identity = random_identity()?;
        let calls = calls(&config, identity, environment)?;
        let tenant = calls.tenant.clone();
        let host_id = host_id();
        let registration = ClientRecords::new(&config.metadata_server, &environment.discovery)?;
        let named = (config.protocol.as_str(), config.device_name.as_str());
        let rdma = rdma::start(named, identity, environment)?;
        let master = Arc::new(MasterClient::new(calls));
        let donation = Arc::new(Donation::new(
            identity,
            &name,
            &host_id,
            &config.protocol,
            address,
            environment,
            rdma.clone(),
        ));
        donation.keep_ports(claims);
        let cells = Arc::<ClientCells>::default();
        let engine =
            engine_options(identity, &host_id, environment, rdma.as_ref(), &cells, &tenant);
        let devices = environment.accelerators.clone().or_else(perigee_device::of_this_host);
        let memory = CallerMemory::new(devices, rdma.clone());
        let engine = Arc::new(ObjectEngine::new(engine, donation.table().clone()));
        let addresses = Arc::<SegmentAddresses>::default();
        let unreachable = Arc::new(UnreachableOwners::counted_in(cells.clone()));
        let mover = ReplicaMover::new(
            master.clone(),
            engine.clone(),
            addresses.clone(),
            unreachable.clone(),
        );
        let heartbeat_notify = Arc::<HeartbeatNotify>::default();
        let at_once = heartbeat_notify.clone();
        let ledger = LedgerKeeper::new(&master, donation.table(), move || at_once.hurry());
        let disks = Disks::new(master.clone(), donation.clone(), ledger.void(), mover.signal());
        Ok(Self {
            name,
            host_id,
            master,
            engine,
            addresses,
            cells,
            donation,
            rdma,
            registration: Arc::new(registration),
            mover: Arc::new(mover),
            ledger: Arc::new(ledger),
            heartbeat_notify,
            disks: Arc::new(disks),
            heartbeat: Mutex::default(),
            memory,
            refusals: Refusals::default(),
            unreachable,
            disk_requests: AtomicU64::new(0),
            open: AtomicBool::new(true),
            shows_metrics: environment.shows_metrics,
            report_interval: environment.report_interval,
            report: Mutex::default(),
            config,
        })
    }

    fn join_cluster(&self) -> Result<(), StoreError> {
        if self.config.global_segment_bytes > 0 {
            self.donate(self.config.global_segment_bytes)?;
        } else {
            let (none, number) = self.donation.offers_again(false);
            self.master.mount(&none, true, number)?;
        }
        if let Some(disks) = &self.config.disks {
            let shared = match self.config.global_segment_bytes {
                0 => None,
                _ => self.master.shared_directory()?,
            };
            self.disks.open(disks, shared.as_ref())?;
        }
        self.registration.publish(&self.donation)?;
        let heartbeat = Heartbeat::start(
            self.master.clone(),
            self.donation.clone(),
            self.engine.clone(),
            self.mover.clone(),
            self.ledger.clone(),
            self.disks.clone(),
            self.heartbeat_notify.clone(),
        );
        let heartbeat = heartbeat.map_err(|error| StoreError::System(error.to_string()))?;
        let mut beats = self.heartbeat.lock().unwrap_or_else(PoisonError::into_inner);
        debug_assert!(beats.is_none(), "a store joins once, and one thread beats for it");
        *beats = Some(heartbeat);
        drop(beats);
        let report = self.report_interval.map(|interval| traffic_log::begin(&self.cells, interval));
        let report = report.transpose().map_err(|error| StoreError::System(error.to_string()))?;
        let mut reports = self.report.lock().unwrap_or_else(PoisonError::into_inner);
        debug_assert!(reports.is_none(), "one thread reports");
        *reports = report;
        Ok(())
    }

    /// Whether its numbers are to be shown.
    pub fn shows_metrics(&self) -> bool {
        self.shows_metrics
    }

    /// Leaves the cluster: segments are unmounted, threads end, memory is given back. Further calls
    /// are refused.
    pub fn close(&self) {
        if !self.open.swap(false, Ordering::AcqRel) {
            return;
        }
        drop(self.report.lock().unwrap_or_else(PoisonError::into_inner).take());
        let heartbeat = self.heartbeat.lock().unwrap_or_else(PoisonError::into_inner).take();
        let answers = heartbeat.is_none_or(Heartbeat::stop);
        self.mover.stop();
        self.ledger.stop();
        self.disks.stop();
        if !answers {
            tracing::info!("The master does not answer; it will notice that this client left");
        } else if let Err(error) = self.master.leave() {
            tracing::info!(%error, "The master did not get this client's farewell; it will notice");
        }
        self.registration.withdraw();
        self.engine.close();
        self.mover.join();
        self.donation.stop();
        self.disks.close();
        if let Some(rdma) = &self.rdma {
            rdma.close();
        }
        self.master.close();
        debug_assert!(!self.is_open(), "a store that was left is not opened again");
    }

    /// Whether the client takes calls.
    pub fn is_open(&self) -> bool {
        self.open.load(Ordering::Acquire)
    }

    /// Bytes of memory that it lends; less than was asked for where the container leaves less.
    pub fn lent_bytes(&self) -> u64 {
        self.donation.lent_bytes()
    }

    /// The settings it was opened with.
    pub fn config(&self) -> &StoreConfig {
        &self.config
    }

    /// What this client counts.
    pub fn cells(&self) -> &ClientCells {
        &self.cells
    }

    /// `host:port` by which this client is known.
    pub fn hostname(&self) -> String {
        self.name.clone()
    }

    pub(crate) fn host_name(&self) -> &str {
        host_of(&self.name)
    }

    /// 0 healthy, 1 closed, 2 the master does not answer.
    pub fn health(&self) -> i32 {
        if !self.is_open() {
            return 1;
        }
        if self.master.ping(&LentSegments::default()).is_ok() { 0 } else { 2 }
    }

    /// A call to the master, counted and timed.
    pub(crate) fn timed<T>(
        &self,
        kind: RpcKind,
        call: impl FnOnce(&MasterClient) -> Result<T, CallError>,
    ) -> Result<T, CallError> {
        let start = monotonic();
        let answer = counting_as(kind.number(), || call(&self.master));
        self.cells.record_call(kind, (monotonic() - start).as_nanos() as u64);
        answer
    }

    pub(crate) fn while_open(&self) -> Result<(), Status> {
        if self.is_open() { Ok(()) } else { Err(Status::InvalidParams) }
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.close();
    }
}

/// Where peers reach a client: towards its master, or else its metadata service.
fn address_for_peers(config: &StoreConfig, environment: &StoreEnvironment) -> OwnAddress {
    let mut services = vec![config.master_server_address.clone()];
    services.extend(service_addresses(&config.metadata_server));
    let host = host_of(config.local_hostname.trim());
    OwnAddress::find(host, &services, &environment.discovery)
}

/// The single or the batch kind of a call.
pub(crate) fn kind_of(kind: RpcKind, keys: usize) -> RpcKind {
    if keys == 1 { kind } else { kind.batched() }
}

/// The status of a failed call, with a debug line in the log.
pub(crate) fn refused(error: &CallError) -> Status {
    tracing::debug!(%error, "A call to the master failed");
    error.status()
}
