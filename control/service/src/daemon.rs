//! The master as a program: everything it serves, from configuration to a clean stop.

use crate::cluster::{Cluster, ClusterError};
use crate::config::{MasterConfig, MetadataCleanup};
use crate::freed_memory;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{SigSet, Signal};
use perigee_admin::{AdminHandle, AdminOptions, AdminServer};
use perigee_flags::FlagError;
use perigee_http::HttpStartError;
use perigee_metadata::{MetadataHandle, MetadataServer, MetadataStore};
use perigee_metrics::BuildInfo;
use perigee_schemas::Status;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

/// Why the master could not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DaemonError {
    /// An address does not resolve.
    #[error(transparent)]
    Config(#[from] FlagError),
    /// The shards could not start.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// An HTTP port cannot be listened on.
    #[error(transparent)]
    Http(#[from] HttpStartError),
    /// Signals cannot be caught or a thread cannot be started.
    #[error("The system refused: {0}")]
    System(#[from] std::io::Error),
}

impl DaemonError {
    /// The exit code of the program.
    pub fn exit_code(&self) -> u8 {
        match self {
            DaemonError::Config(_) | DaemonError::Cluster(ClusterError::Quotas(_)) => {
                Status::InvalidParams.exit()
            }
            DaemonError::Cluster(_) | DaemonError::Http(_) | DaemonError::System(_) => {
                Status::RpcFail.exit()
            }
        }
    }
}

/// Serves until SIGTERM or SIGINT.
///
/// # Errors
/// A port is taken or the machine forbids what is needed; the message says what to change.
pub fn run(config: &MasterConfig) -> Result<(), DaemonError> {
    perigee_shard::heap::give_back_freed();
    let signals = block_signals()?;
    raise_descriptor_limit();
    for line in config.changed.iter() {
        tracing::info!("Setting {line}");
    }
    for warning in &config.warnings {
        tracing::warn!("{warning}");
    }
    let services = Services::start(config)?;
    services.announce();
    let signal = signals.wait().map_err(std::io::Error::from)?;
    tracing::info!(%signal, "Stopping");
    services.stop();
    Ok(())
}

struct Services {
    cluster: Arc<Cluster>,
    admin: AdminHandle,
    metadata: Option<MetadataHandle>,
    shards: usize,
}

impl Services {
    fn start(config: &MasterConfig) -> Result<Self, DaemonError> {
        let metadata = match &config.metadata {
            Some(listen) => Some(MetadataServer::start(listen.socket_addr()?)?),
            None => None,
        };
        let cleanup = Cleanup::new(config, metadata.as_ref().map(MetadataHandle::store));
        let (expired, listener) = match cleanup {
            Some(_) => {
                let (send, receive) = channel();
                (Some(send), Some(receive))
            }
            None => (None, None),
        };
        let cluster = Arc::new(Cluster::start(config, config.rpc.listen.socket_addr()?, expired)?);
        freed_memory::watch(&cluster)?;
        if let (Some(cleanup), Some(listener)) = (cleanup, listener) {
            cleanup.start(listener)?;
        }
        let options = AdminOptions { build: build_info(), report: config.report_metrics };
        let admin = AdminServer::start(config.http.socket_addr()?, cluster.clone(), options)?;
        Ok(Self { cluster, admin, metadata, shards: config.rpc.shards })
    }

    fn announce(&self) {
        let rpc = self.cluster.address();
        let http = self.admin.local_addr();
        tracing::info!(
            "Master service started on port {}, max_threads={}",
            rpc.port(),
            self.shards
        );
        tracing::info!("HTTP metrics server started on port {}", http.port());
        if let Some(metadata) = &self.metadata {
            tracing::info!("HTTP metadata server started on port {}", metadata.local_addr().port());
        }
        if let Some(events) = self.cluster.events() {
            let replay = events.replay_endpoint().map(ToString::to_string);
            let publish = events.publish_endpoint();
            tracing::info!(%publish, replay, "KV events are published");
        }
        tracing::info!(%rpc, %http, epoch = self.cluster.epoch(), "Ready");
    }

    fn stop(self) {
        self.admin.stop();
        if let Some(metadata) = self.metadata {
            metadata.stop();
        }
        self.cluster.stop();
    }
}

/// Deletes the metadata records of expired clients, on a thread of its own: the service may be
/// slow.
struct Cleanup {
    cluster: String,
    place: MetadataSource,
}

enum MetadataSource {
    Embedded(MetadataStore),
    Remote(String),
}

impl Cleanup {
    fn new(config: &MasterConfig, embedded: Option<MetadataStore>) -> Option<Self> {
        let place = match (&config.metadata_cleanup, embedded) {
            (MetadataCleanup::Embedded, Some(store)) => MetadataSource::Embedded(store),
            (MetadataCleanup::Remote(url), _) => MetadataSource::Remote(url.clone()),
            _ => return None,
        };
        Some(Self { cluster: config.metadata_cluster.clone(), place })
    }

    fn start(self, expired: Receiver<Vec<String>>) -> std::io::Result<()> {
        let work = move || expired.iter().flatten().for_each(|name| self.forget(&name));
        std::thread::Builder::new().name("perigee-cleanup".to_owned()).spawn(work).map(|_| ())
    }

    fn forget(&self, name: &str) {
        let removed = match &self.place {
            MetadataSource::Embedded(store) => Ok(store.remove_client(&self.cluster, name)),
            MetadataSource::Remote(url) => {
                perigee_metadata::remote::remove_client(url, &self.cluster, name)
            }
        };
        match removed {
            Ok(records) => tracing::info!(name, records, "Metadata of an expired client deleted"),
            Err(error) => {
                tracing::warn!(name, error, "Metadata of an expired client was not deleted");
            }
        }
    }
}

fn build_info() -> BuildInfo {
    BuildInfo {
        version: env!("CARGO_PKG_VERSION"),
        commit: option_env!("PERIGEE_COMMIT").unwrap_or("unknown"),
        reactor: perigee_shard::reactor_name(),
    }
}

/// Blocks the stop signals in this thread and all it starts, so that `run` alone receives them.
fn block_signals() -> Result<SigSet, std::io::Error> {
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGTERM);
    signals.add(Signal::SIGINT);
    signals.thread_block()?;
    Ok(signals)
}

/// Many idle clients need many descriptors: the soft limit is raised to the hard one.
fn raise_descriptor_limit() {
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE)
        && soft < hard
        && setrlimit(Resource::RLIMIT_NOFILE, hard, hard).is_err()
    {
        tracing::info!(soft, hard, "The limit of open files could not be raised");
    }
}
