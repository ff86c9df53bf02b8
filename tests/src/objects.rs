//! A store client that puts and gets byte vectors.
//! Invariant: a buffer lives until the call that was given its address has returned.

use perigee_schemas::Status;
use perigee_store::api::{CallerRange, GetRequest, PutRequest, ReplicateConfig, StoreConfig};
use perigee_store::{Store, StoreEnvironment};

use crate::content::{fill, version_of};
use crate::deadline::wait_until;
use crate::limits::MEMBERSHIP_DEADLINE;

/// A connected client.
pub struct Objects {
    /// The client itself.
    pub store: Store,
}

impl Objects {
    /// A client of the master at `host:port` that lends no memory.
    #[track_caller]
    pub fn open(master: &str) -> Self {
        Self::open_as(master, "127.0.0.1", 0)
    }

    /// A client of a tenant that lends no memory.
    #[track_caller]
    pub fn open_of(master: &str, tenant: &str) -> Self {
        let config =
            StoreConfig { tenant_id: tenant.to_owned(), ..Self::config(master, "127.0.0.1", 0) };
        let opened = Store::open(config);
        Self { store: opened.unwrap_or_else(|e| unreachable_store(&e.to_string())) }
    }

    /// A client that lends no memory and moves all bytes over TCP.
    #[track_caller]
    pub fn open_over_tcp(master: &str) -> Self {
        let off = |name: &str| (name == "PERIGEE_SHARED_MEMORY").then(|| "0".to_owned());
        let opened = StoreEnvironment::from_variables(off).and_then(|environment| {
            Store::open_with(Self::config(master, "127.0.0.1", 0), &environment)
        });
        Self { store: opened.unwrap_or_else(|e| unreachable_store(&e.to_string())) }
    }

    /// A client with a name that lends `segment_bytes`.
    #[track_caller]
    pub fn open_as(master: &str, name: &str, segment_bytes: u64) -> Self {
        let opened = Store::open(Self::config(master, name, segment_bytes));
        Self { store: opened.unwrap_or_else(|e| unreachable_store(&e.to_string())) }
    }

    fn config(master: &str, name: &str, segment_bytes: u64) -> StoreConfig {
        StoreConfig {
            local_hostname: name.to_owned(),
            metadata_server: "P2PHANDSHAKE".to_owned(),
            global_segment_bytes: segment_bytes,
            local_buffer_bytes: 16 << 20,
            protocol: "tcp".to_owned(),
            device_name: String::new(),
            master_server_address: master.to_owned(),
            tenant_id: "default".to_owned(),
            http_port: None,
            disks: None,
        }
    }

    /// Stores bytes under a key.
    pub fn put(&self, key: &str, bytes: &[u8]) -> Status {
        self.put_with(key, bytes, &ReplicateConfig::default())
    }

    /// Stores bytes under a key with further wishes.
    pub fn put_with(&self, key: &str, bytes: &[u8], config: &ReplicateConfig) -> Status {
        let pieces = [CallerRange::owned(bytes.as_ptr() as usize, bytes.len())];
        self.store.put(&[PutRequest { key, pieces: &pieces, group: None }], config)[0]
    }

    /// Bytes of a key, at most `room` of them.
    pub fn get(&self, key: &str, room: usize) -> Result<Vec<u8>, Status> {
        let mut bytes = vec![0; room];
        let pieces = [CallerRange::owned(bytes.as_mut_ptr() as usize, room)];
        let read = self.store.get(&[GetRequest { key, pieces: &pieces }])[0]?;
        bytes.truncate(usize::try_from(read).unwrap_or(room));
        Ok(bytes)
    }

    /// Whether a key exists; an error counts as no.
    pub fn exists(&self, key: &str) -> bool {
        matches!(self.store.exist(&[key])[0], Ok(true))
    }

    /// Stores a self-describing object.
    pub fn put_object(&self, key: u64, version: u64, bytes: usize) -> Status {
        let mut value = vec![0; bytes];
        fill(key, version, &mut value);
        self.put(&key_name(key), &value)
    }

    /// Version of a self-describing object; fails the test when the bytes are not its own.
    #[track_caller]
    pub fn get_object(&self, key: u64, bytes: usize) -> Result<u64, Status> {
        let value = self.get(&key_name(key), bytes)?;
        assert_eq!(value.len(), bytes, "object {key} has another length");
        let version = version_of(key, &value);
        assert!(version.is_some(), "object {key} has bytes that are not its own");
        Ok(version.unwrap_or_default())
    }

    /// As [`Objects::get_object`], again where a busy machine has taken longer than a lease runs.
    #[track_caller]
    pub fn get_object_within_lease(&self, key: u64, bytes: usize) -> Result<u64, Status> {
        let mut found = Err(Status::LeaseExpired);
        wait_until("a read within its lease", MEMBERSHIP_DEADLINE, || {
            found = self.get_object(key, bytes);
            found != Err(Status::LeaseExpired)
        });
        found
    }

    /// Stores or replaces self-describing objects of `bytes` each in one call.
    pub fn upsert_objects(&self, keys: &[u64], version: u64, bytes: usize) -> Vec<Status> {
        let names: Vec<String> = keys.iter().map(|key| key_name(*key)).collect();
        let mut room = vec![0; keys.len() * bytes];
        for (key, value) in keys.iter().zip(room.chunks_mut(bytes)) {
            fill(*key, version, value);
        }
        let places: Vec<[CallerRange; 1]> = room.chunks_mut(bytes).map(whole).collect();
        let requests: Vec<PutRequest<'_>> = names
            .iter()
            .zip(&places)
            .map(|(key, place)| PutRequest { key, pieces: place, group: None })
            .collect();
        self.store.upsert(&requests, &ReplicateConfig::default())
    }

    /// Versions of self-describing objects of `bytes` each, read in one call; nothing in place of
    /// the version tells bytes that are not the object's own.
    pub fn get_objects(&self, keys: &[u64], bytes: usize) -> Vec<Result<Option<u64>, Status>> {
        let names: Vec<String> = keys.iter().map(|key| key_name(*key)).collect();
        let mut room = vec![0; keys.len() * bytes];
        let places: Vec<[CallerRange; 1]> = room.chunks_mut(bytes).map(whole).collect();
        let requests: Vec<GetRequest<'_>> = names
            .iter()
            .zip(&places)
            .map(|(key, place)| GetRequest { key, pieces: place })
            .collect();
        let results = self.store.get(&requests).into_iter();
        let values = keys.iter().zip(room.chunks(bytes));
        results
            .zip(values)
            .map(|(read, (key, value))| read.map(|_| version_of(*key, value)))
            .collect()
    }

    /// Name of the segment that holds a self-describing object.
    pub fn segment_of(&self, key: u64) -> Option<String> {
        let name = key_name(key);
        let replicas = self.store.replicas(&[&name]).swap_remove(0).ok()?;
        replicas.first().map(|replica| replica.transport_endpoint.clone())
    }
}

/// All of a buffer as the one place of an object.
pub fn whole(room: &mut [u8]) -> [CallerRange; 1] {
    [CallerRange::owned(room.as_mut_ptr() as usize, room.len())]
}

/// Key of a self-describing object.
pub fn key_name(key: u64) -> String {
    format!("object-{key}")
}

#[track_caller]
fn unreachable_store(message: &str) -> Store {
    assert!(message.is_empty(), "the store does not open: {message}");
    std::process::abort()
}
