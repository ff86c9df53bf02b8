//! A master, nodes and clients in this process, and the calls that every test needs.
//! Invariant: all of them speak over real sockets, so that only threads are shared.

use perigee_flags::ProcessEnvironment;
use perigee_metrics::{BuildInfo, Samples};
use perigee_schemas::Status;
use perigee_service::Cluster;
use perigee_service::config::{MasterConfig, MasterStart};
use perigee_store::{
    CallerRange, GetRequest, PutRequest, ReplicateConfig, Store, StoreConfig, StoreEnvironment,
};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

/// Ends a hang; nothing is timed.
pub(crate) const LONG: Duration = Duration::from_secs(90);
/// A host name without a port: a client gets one of its own.
pub(crate) const ANY: &str = "127.0.0.1";

/// A master with some flags on a free port.
pub(crate) fn master(flags: &[&str]) -> Arc<Cluster> {
    master_telling(flags, None)
}

/// A master that tells which names went with expired clients.
pub(crate) fn master_telling(
    flags: &[&str],
    listener: Option<Sender<Vec<String>>>,
) -> Arc<Cluster> {
    let flags: Vec<String> = flags.iter().map(|flag| (*flag).to_owned()).collect();
    let MasterStart::Serve(config) =
        MasterConfig::load(&flags, &ProcessEnvironment::of(&[])).unwrap()
    else {
        unreachable!("no text was asked for")
    };
    Arc::new(Cluster::start(&config, "127.0.0.1:0".parse().unwrap(), listener).unwrap())
}

/// How a client called `name` joins over TCP.
pub(crate) fn config(cluster: &Cluster, name: &str, segment_bytes: u64) -> StoreConfig {
    StoreConfig {
        local_hostname: name.to_owned(),
        metadata_server: "P2PHANDSHAKE".to_owned(),
        global_segment_bytes: segment_bytes,
        local_buffer_bytes: 1 << 20,
        protocol: "tcp".to_owned(),
        device_name: String::new(),
        master_server_address: cluster.address().to_string(),
        tenant_id: "default".to_owned(),
        http_port: None,
        disks: None,
    }
}

/// The defaults, with or without shared memory.
pub(crate) fn environment(shared_memory: bool) -> StoreEnvironment {
    let variable =
        |name: &str| (name == "PERIGEE_SHARED_MEMORY" && !shared_memory).then(|| "0".to_owned());
    StoreEnvironment::from_variables(variable).unwrap()
}

/// Bytes that a client has moved over a route.
pub(crate) fn moved(store: &Store, route: &str) -> u64 {
    let build = BuildInfo { version: "", commit: "", reactor: "" };
    let text = Samples::of_client([store.cells()], "real", build).render();
    let name = format!("perigee_transfer_bytes_total{{route=\"{route}\"");
    let lines = text.lines().filter(|line| line.starts_with(&name));
    let value = |line: &str| line.rsplit(' ').next()?.parse::<u64>().ok();
    lines.filter_map(value).sum()
}

/// A client called `name` that donates so many bytes.
pub(crate) fn store(
    cluster: &Cluster,
    name: &str,
    segment_bytes: u64,
    shared_memory: bool,
) -> Store {
    let config = config(cluster, name, segment_bytes);
    Store::open_with(config, &environment(shared_memory)).unwrap()
}

/// Where new objects go, never to be evicted if `pinned`.
pub(crate) fn on(name: &str, pinned: bool) -> ReplicateConfig {
    ReplicateConfig {
        preferred_segments: vec![name.to_owned()],
        with_hard_pin: pinned,
        ..ReplicateConfig::default()
    }
}

/// Bytes that a call reads or fills.
pub(crate) fn piece(bytes: &[u8]) -> CallerRange {
    CallerRange::owned(bytes.as_ptr() as usize, bytes.len())
}

/// Puts an object from two pieces.
pub(crate) fn put(store: &Store, key: &str, bytes: &[u8], config: &ReplicateConfig) -> Status {
    let (front, back) = bytes.split_at(bytes.len() / 2);
    let pieces = [piece(front), piece(back)];
    let request = PutRequest { key, pieces: &pieces, group: None };
    store.put(&[request], config)[0]
}

/// Reads an object into a buffer that is a little larger.
pub(crate) fn get(store: &Store, key: &str) -> Result<Vec<u8>, Status> {
    let bytes = store.size(&[key])[0]?;
    let mut out = vec![0u8; bytes as usize + 3];
    let pieces = [piece(&out)];
    let request = GetRequest { key, pieces: &pieces };
    let read = store.get(&[request])[0]?;
    out.truncate(read as usize);
    Ok(out)
}

/// Bytes that differ from object to object.
pub(crate) fn data(seed: usize, bytes: usize) -> Vec<u8> {
    let byte = |at: usize| (at * 31 + seed * 17 + (at >> 9)) as u8;
    (0..bytes).map(byte).collect()
}

/// Asks again and again until there is an answer.
#[track_caller]
pub(crate) fn until<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + LONG;
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(Instant::now() < deadline, "{what} does not come");
        std::thread::park_timeout(Duration::from_millis(5));
    }
}
