//! A master and store clients inside this process.
//! Invariant: no route is chosen by accident: each client gets a list of those it may take.

use perigee_flags::ProcessEnvironment;
use perigee_schemas::Route;
use perigee_service::Cluster;
use perigee_service::config::{MasterConfig, MasterStart};
use perigee_store::{DiskSettings, Store, StoreConfig, StoreEnvironment};

use crate::error::BenchError;
use crate::stop::Stop;

/// Length of a read lease. The space of a removed object stays in use until its lease has ended.
pub(crate) const LEASE_MS: u64 = 200;

/// Starts a master on a free port.
pub(crate) fn start_master() -> Result<Cluster, BenchError> {
    start_master_with(&[])
}

/// The same with further flags.
pub(crate) fn start_master_with(flags: &[&str]) -> Result<Cluster, BenchError> {
    let mut arguments = vec![
        "--rpc_shards=1".to_owned(),
        // A busy machine that misses heartbeats must not lose its only node in the middle of a row.
        "--client_ttl=3600".to_owned(),
        format!("--default_kv_lease_ttl={LEASE_MS}"),
    ];
    arguments.extend(flags.iter().map(|flag| (*flag).to_owned()));
    let fail = |detail: String| BenchError::Cluster(detail);
    let start = MasterConfig::load(&arguments, &ProcessEnvironment::of(&[]));
    let MasterStart::Serve(config) = start.map_err(|error| fail(error.to_string()))? else {
        return Err(fail("its settings are not those of a server".to_owned()));
    };
    let address = std::net::SocketAddr::from(([127, 0, 0, 1], 0));
    Cluster::start(&config, address, None).map_err(|error| fail(error.to_string()))
}

/// Opens a client; it donates `segment_bytes`.
pub(crate) fn open_store(
    master: &str,
    segment_bytes: u64,
    route: Route,
) -> Result<Store, BenchError> {
    open_store_with(master, segment_bytes, route, None)
}

/// The same with disks.
pub(crate) fn open_store_with(
    master: &str,
    segment_bytes: u64,
    route: Route,
    disks: Option<DiskSettings>,
) -> Result<Store, BenchError> {
    let variables = |name: &str| match name {
        "PERIGEE_SAME_PROCESS" => {
            let allowed = route == Route::SameProcess;
            Some(u8::from(allowed).to_string())
        }
        "PERIGEE_SHARED_MEMORY" if route == Route::Tcp => Some("0".to_owned()),
        _ => std::env::var(name).ok().filter(|value| !value.is_empty()),
    };
    let config = StoreConfig {
        local_hostname: "127.0.0.1".to_owned(),
        metadata_server: "P2PHANDSHAKE".to_owned(),
        global_segment_bytes: segment_bytes,
        local_buffer_bytes: 1 << 20,
        protocol: "tcp".to_owned(),
        device_name: String::new(),
        master_server_address: master.to_owned(),
        tenant_id: "default".to_owned(),
        http_port: None,
        disks,
    };
    let environment = StoreEnvironment::from_variables(variables)?;
    Ok(Store::open_with(config, &environment)?)
}

/// Serves a cluster of one node for other processes until `stop`; `ready` gets the master's
/// address.
///
/// # Errors
/// The master does not start, or the node's memory cannot be allocated.
pub(crate) fn serve(
    segment_bytes: u64,
    route: Route,
    stop: &Stop,
    ready: impl FnOnce(&str) -> std::io::Result<()>,
) -> Result<(), BenchError> {
    let master = start_master()?;
    let address = master.address().to_string();
    let node = open_store(&address, segment_bytes, route)?;
    ready(&address)?;
    stop.wait();
    node.close();
    master.stop();
    Ok(())
}
