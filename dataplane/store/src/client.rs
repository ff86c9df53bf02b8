//! One client of a cluster: opening, closing, and the calls that move no bytes.

use crate::addresses::Addresses;
use crate::api::{ReplicaDescriptor, SegmentId, StoreConfig};
use crate::counting::Counting;
use crate::donation::Donation;
use crate::environment::StoreEnvironment;
use crate::error::StoreError;
use crate::heartbeat::Heartbeat;
use crate::host::{client_name, host_id, host_of, random_identity};
use crate::limits::KEYS_PER_CALL;
use crate::lookup::Lookup;
use crate::metadata::Registration;
use crate::refusals::Refusals;
use perigee_memory::RegisteredRegions;
use perigee_metrics::{ClientCells, RpcKind};
use perigee_rpc::{CallError, ClientOptions, MasterClient};
use perigee_schemas::Status;
use perigee_schemas::session::Role;
use perigee_shard::monotonic;
use perigee_transfer::{Engine, EngineOptions};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// One client. Shared by all threads of a process.
#[derive(Debug)]
pub struct Store {
    config: StoreConfig,
    name: String,
    pub(crate) host_id: String,
    pub(crate) master: Arc<MasterClient>,
    pub(crate) engine: Arc<Engine>,
    pub(crate) addresses: Addresses,
    pub(crate) cells: Arc<ClientCells>,
    donation: Arc<Donation>,
    registration: Option<Registration>,
    heartbeat: Mutex<Option<Heartbeat>>,
    regions: Mutex<RegisteredRegions>,
    pub(crate) refusals: Refusals,
    open: AtomicBool,
}

impl Store {
    /// Opens a client with the settings of the environment.
    ///
    /// # Errors
    /// A setting is wrong, the master does not answer, or memory is not to be had; the message says what to change.
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
        let name = client_name(&config.local_hostname)?;
        let identity = random_identity()?;
        let host_id = host_id();
        let cluster = environment.metadata_cluster.as_deref();
        let registration = Registration::new(&config.metadata_server, cluster, &name)?;
        if !config.protocol.eq_ignore_ascii_case("tcp") {
            tracing::warn!(
                "TCP and shared memory are used instead of {}",
                config.protocol
            );
        }
        let options = ClientOptions {
            address: config.master_server_address.clone(),
            role: if config.global_segment_bytes > 0 {
                Role::Node
            } else {
                Role::Client
            },
            client: identity,
            deadline: environment.call_deadline,
        };
        let donation = Arc::new(Donation::new(
            identity,
            &name,
            &host_id,
            &config.protocol,
            &config.master_server_address,
            environment,
        ));
        let cells = Arc::<ClientCells>::default();
        let engine = EngineOptions {
            identity,
            host_id: host_id.clone(),
            routes: environment.routes,
            shards: environment.client_shards,
            deadline: environment.transfer_deadline,
            congestion: environment.congestion.clone(),
            observer: Arc::new(Counting(cells.clone())),
        };
        Ok(Self {
            name,
            host_id,
            master: Arc::new(MasterClient::new(options)),
            engine: Arc::new(Engine::new(engine, donation.table().clone())),
            addresses: Addresses::default(),
            cells,
            donation,
            registration,
            heartbeat: Mutex::default(),
            regions: Mutex::new(RegisteredRegions::new()),
            refusals: Refusals::default(),
            open: AtomicBool::new(true),
            config,
        })
    }

    fn join_cluster(&self) -> Result<(), StoreError> {
        if self.config.global_segment_bytes > 0 {
            self.donate(self.config.global_segment_bytes)?;
        } else {
            self.master.mount(&[], true)?;
        }
        if let Some(registration) = &self.registration {
            let offers = self.donation.offers();
            registration.publish(
                &self.name,
                &self.config.protocol,
                &offers,
                self.donation.endpoint(),
            )?;
        }
        let heartbeat = Heartbeat::start(
            self.master.clone(),
            self.donation.clone(),
            self.engine.clone(),
        );
        let heartbeat = heartbeat.map_err(|error| StoreError::System(error.to_string()))?;
        *self
            .heartbeat
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Some(heartbeat);
        Ok(())
    }

    fn donate(&self, bytes: u64) -> Result<SegmentId, StoreError> {
        let offer = self.donation.add(bytes)?;
        let id = offer.id;
        let mounted = self.master.mount(&[offer], false);
        let verdict = match mounted {
            Ok(statuses) => statuses
                .first()
                .copied()
                .unwrap_or(Status::InternalError)
                .ok()
                .map_err(StoreError::Mount),
            Err(error) => Err(error.into()),
        };
        if verdict.is_err() {
            self.donation.remove(id);
        }
        verdict.map(|()| id)
    }

    /// Leaves the cluster: segments are unmounted, threads end, memory is given back. Further calls are refused.
    pub fn close(&self) {
        if !self.open.swap(false, Ordering::AcqRel) {
            return;
        }
        let heartbeat = self
            .heartbeat
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let answers = heartbeat.is_none_or(Heartbeat::stop);
        if !answers {
            tracing::info!("The master does not answer; it will notice that this client left");
        } else if let Err(error) = self.master.leave() {
            tracing::info!(%error, "The master was not told that this client leaves; it will notice");
        }
        if let Some(registration) = &self.registration {
            registration.withdraw();
        }
        self.engine.close();
        self.donation.stop();
        self.master.close();
    }

    /// Whether the client takes calls.
    pub fn is_open(&self) -> bool {
        self.open.load(Ordering::Acquire)
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
        if self.master.ping().is_ok() { 0 } else { 2 }
    }

    /// Whether each key can be read.
    pub fn exist(&self, keys: &[&str]) -> Vec<Result<bool, Status>> {
        let answer = |code: i32| match code {
            0 => Ok(false),
            code if code > 0 => Ok(true),
            code => Err(Status::from_peer(code)),
        };
        let kind = kind_of(RpcKind::ExistKey, keys.len());
        let ask = |chunk: &[&str]| self.timed(kind, |master| master.exist(chunk, keys.len() == 1));
        self.in_chunks(keys, ask, |status| vec![status.code(); 1])
            .into_iter()
            .map(answer)
            .collect()
    }

    /// Payload bytes of each key.
    pub fn size(&self, keys: &[&str]) -> Vec<Result<u64, Status>> {
        let lookup = self.locate(keys);
        (0..keys.len()).map(|index| lookup.object(index)).collect()
    }

    /// Looks keys up and takes a read lease on each.
    pub fn locate(&self, keys: &[&str]) -> Lookup {
        self.look_up(keys, false)
    }

    pub(crate) fn look_up<S: AsRef<str>>(&self, keys: &[S], peek: bool) -> Lookup {
        if !self.is_open() {
            return Lookup::failed(keys.len(), Status::InvalidParams);
        }
        let mut lookup = Lookup::default();
        for chunk in keys.chunks(KEYS_PER_CALL) {
            let kind = kind_of(RpcKind::GetReplicaList, keys.len());
            let located = self.timed(kind, |master| {
                master.get_replicas(chunk, keys.len() == 1, peek)
            });
            match located {
                Ok(located) => lookup.append(chunk, &located, &self.addresses),
                Err(error) => lookup.append_failure(chunk.len(), refused(&error)),
            }
        }
        lookup
    }

    /// Where the replicas of each key lie.
    pub fn replicas(&self, keys: &[&str]) -> Vec<Result<Vec<ReplicaDescriptor>, Status>> {
        if !self.is_open() {
            return vec![Err(Status::InvalidParams); keys.len()];
        }
        let mut all = Vec::with_capacity(keys.len());
        for chunk in keys.chunks(KEYS_PER_CALL) {
            match self.master.get_replicas(chunk, keys.len() == 1, false) {
                Ok(located) => {
                    all.extend((0..chunk.len()).map(|index| descriptors(&located.places, index)));
                }
                Err(error) => all.extend(chunk.iter().map(|_| Err(refused(&error)))),
            }
        }
        all
    }

    /// Removes keys; with `force` also those under a lease.
    pub fn remove(&self, keys: &[&str], force: bool) -> Vec<Status> {
        self.in_chunks(
            keys,
            |chunk| self.master.remove(chunk, force),
            |status| vec![status],
        )
    }

    /// Removes the keys in which a regular expression is found; returns how many.
    ///
    /// # Errors
    /// The pattern is not a regular expression, or the master did not answer.
    pub fn remove_by_regex(&self, pattern: &str, force: bool) -> Result<u64, Status> {
        self.while_open()?;
        self.master
            .remove_by_regex(pattern, force)
            .map_err(|error| refused(&error))?
    }

    /// Removes everything; returns how many objects.
    ///
    /// # Errors
    /// The master did not answer.
    pub fn remove_all(&self, force: bool) -> Result<u64, Status> {
        self.while_open()?;
        self.master
            .remove_all(force)
            .map_err(|error| refused(&error))?
    }

    /// Drops the replicas of keys on one segment, or on all if the name is empty; returns the keys that were cleared.
    pub fn replica_clear(&self, keys: &[&str], segment_name: &str) -> Vec<String> {
        let ask = |chunk: &[&str]| self.master.replica_clear(chunk, segment_name);
        let statuses = self.in_chunks(keys, ask, |status| vec![status]);
        let cleared = keys
            .iter()
            .zip(statuses)
            .filter(|(_, status)| *status == Status::Ok);
        cleared.map(|(key, _)| (*key).to_owned()).collect()
    }

    /// Donates another segment.
    ///
    /// # Errors
    /// The memory is not to be had, or the master refused it.
    pub fn mount_segment(&self, bytes: u64) -> Result<Vec<SegmentId>, Status> {
        self.while_open()?;
        if bytes == 0 {
            return Err(Status::InvalidParams);
        }
        let donated = self.donate(bytes).map_err(|error| {
            tracing::warn!(%error, "Cannot donate a segment");
            error.status()
        })?;
        Ok(vec![donated])
    }

    /// Donates a range of a file. Not built yet.
    ///
    /// # Errors
    /// Always [`Status::NotSupported`].
    pub fn mount_file(
        &self,
        path: &str,
        _offset: u64,
        _bytes: u64,
    ) -> Result<Vec<SegmentId>, Status> {
        self.while_open()?;
        tracing::warn!(
            path,
            "Donating files is not built yet; donate memory with allocate_and_mount_segment"
        );
        Err(Status::NotSupported)
    }

    /// Unmounts donated segments; with a grace they stay readable for that long. The first refusal is returned.
    pub fn unmount_segments(&self, ids: &[SegmentId], grace_ms: u64) -> Status {
        if let Err(status) = self.while_open() {
            return status;
        }
        let statuses = match self.master.unmount(ids, grace_ms) {
            Ok(statuses) => statuses,
            Err(error) => return refused(&error),
        };
        for (id, status) in ids.iter().zip(&statuses) {
            if *status == Status::Ok {
                self.donation.retire(*id, Duration::from_millis(grace_ms));
            }
        }
        statuses
            .into_iter()
            .find(|status| *status != Status::Ok)
            .unwrap_or(Status::Ok)
    }

    /// Registers memory of the caller. Overlap with registered memory is refused.
    pub fn register_buffer(&self, address: usize, bytes: usize) -> Status {
        if let Err(status) = self.while_open() {
            return status;
        }
        let mut regions = self.regions.lock().unwrap_or_else(PoisonError::into_inner);
        regions
            .register(address, bytes)
            .map_or(Status::InvalidParams, |()| Status::Ok)
    }

    /// Forgets registered memory; an address that is not registered is refused.
    pub fn unregister_buffer(&self, address: usize) -> Status {
        if let Err(status) = self.while_open() {
            return status;
        }
        let mut regions = self.regions.lock().unwrap_or_else(PoisonError::into_inner);
        regions
            .unregister(address)
            .map_or(Status::InvalidParams, |_| Status::Ok)
    }

    /// A call to the master, counted and timed.
    pub(crate) fn timed<T>(
        &self,
        kind: RpcKind,
        call: impl FnOnce(&MasterClient) -> Result<T, CallError>,
    ) -> Result<T, CallError> {
        let start = monotonic();
        let answer = call(&self.master);
        self.cells
            .record_call(kind, (monotonic() - start).as_nanos() as u64);
        answer
    }

    pub(crate) fn while_open(&self) -> Result<(), Status> {
        if self.is_open() {
            Ok(())
        } else {
            Err(Status::InvalidParams)
        }
    }

    /// Asks the master about keys in calls of bounded size; a failed call is the verdict on each of its keys.
    fn in_chunks<T: Clone>(
        &self,
        keys: &[&str],
        ask: impl Fn(&[&str]) -> Result<Vec<T>, CallError>,
        failed: impl Fn(Status) -> Vec<T>,
    ) -> Vec<T> {
        let mut all = Vec::with_capacity(keys.len());
        for chunk in keys.chunks(KEYS_PER_CALL) {
            let answer = self
                .while_open()
                .and_then(|()| ask(chunk).map_err(|error| refused(&error)));
            match answer {
                Ok(part) => all.extend(part),
                Err(status) => all.extend(chunk.iter().flat_map(|_| failed(status))),
            }
        }
        all
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.close();
    }
}

/// The single or the batch kind of a call.
pub(crate) fn kind_of(kind: RpcKind, keys: usize) -> RpcKind {
    if keys == 1 { kind } else { kind.batched() }
}

/// The status of a failed call, with a line in the log for whoever debugs it.
pub(crate) fn refused(error: &CallError) -> Status {
    tracing::debug!(%error, "A call to the master failed");
    error.status()
}

fn descriptors(
    places: &perigee_rpc::Started,
    index: usize,
) -> Result<Vec<ReplicaDescriptor>, Status> {
    places.status[index].ok()?;
    let describe = |location: &perigee_rpc::Location| {
        let segment = &places.segments[location.segment as usize];
        ReplicaDescriptor {
            status: location.status,
            bytes: location.payload_bytes,
            address: segment.base + location.offset,
            transport_endpoint: segment.name.clone(),
            protocol: segment.protocol.clone(),
        }
    };
    Ok(places.locations_of(index).iter().map(describe).collect())
}
