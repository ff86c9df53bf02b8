//! Joining the cluster, with patience. Invariant: memory is allocated only after the master was
//! seen to listen, and the whole wait ends with the configured time.

use crate::config::build::with_port;
use crate::config::{Metadata, NodeConfig, NodeName};
use crate::error::NodeError;
use crate::limits::{ATTEMPT_PAUSE, OBSTACLE_LOG_PAUSE};
use crate::phase::NodePhase;
use crate::probe::probe;
use perigee_flags::FlagError;
use perigee_rpc::CallError;
use perigee_schemas::Status;
use perigee_settings::SettingError;
use perigee_store::{Store, StoreConfig, StoreError};
use std::time::Instant;

/// What the store calls the setting `host`.
const LOCAL_HOSTNAME: &str = "local_hostname";

/// Port of an http:// URL without one.
const HTTP_PORT: u16 = 80;

/// Name of a store that listens on all addresses and takes the one towards the master as its name.
const ANY_HOST: &str = "0.0.0.0";

/// Word for "register with the master only".
const NO_METADATA: &str = "P2PHANDSHAKE";

/// Opens the store of a node, waiting for the master as long as the configuration says; nothing if
/// the program stops first.
///
/// # Errors
/// A setting is wrong, memory cannot be allocated, or the time is over.
pub(crate) fn open(config: &NodeConfig, phase: &NodePhase) -> Result<Option<Store>, NodeError> {
    let started = Instant::now();
    let (Metadata::Required(server) | Metadata::IfThere(server)) = &config.metadata;
    let mut metadata = server.clone();
    let mut reported = Reported::default();
    loop {
        let obstacle = match attempt(config, &metadata, phase) {
            Ok(store) => return Ok(Some(store)),
            Err(OpeningError::Stopped) => return Ok(None),
            Err(OpeningError::Final(error)) => return Err(error),
            Err(OpeningError::Metadata(reason)) if is_optional(&config.metadata) => {
                tracing::info!("{reason}; going on without it, the master is enough");
                NO_METADATA.clone_into(&mut metadata);
                continue;
            }
            Err(OpeningError::Metadata(reason)) => Obstacle::new(reason, Status::RpcFail),
            Err(OpeningError::NotYet(obstacle)) => obstacle,
        };
        let waited = started.elapsed();
        if waited + ATTEMPT_PAUSE > config.max_wait {
            return Err(NodeError::GaveUp {
                waited,
                reason: obstacle.reason,
                status: obstacle.status,
            });
        }
        reported.report(&obstacle.reason, config.max_wait.saturating_sub(waited).as_secs());
        std::thread::sleep(ATTEMPT_PAUSE);
    }
}

/// Something that may go away by itself.
struct Obstacle {
    reason: String,
    status: Status,
}

impl Obstacle {
    fn new(reason: String, status: Status) -> Self {
        Self { reason, status }
    }
}

enum OpeningError {
    Stopped,
    Final(NodeError),
    Metadata(String),
    NotYet(Obstacle),
}

fn attempt(config: &NodeConfig, metadata: &str, phase: &NodePhase) -> Result<Store, OpeningError> {
    let unreachable = |error: std::io::Error| {
        let reason = format!("Master {} cannot be reached: {error}", config.master);
        OpeningError::NotYet(Obstacle::new(reason, Status::RpcFail))
    };
    probe(&config.master).map_err(unreachable)?;
    probe_metadata(metadata)?;
    let local_hostname = match &config.name {
        NodeName::Given(name) => name.clone(),
        NodeName::OfRoute(port) => with_port(ANY_HOST, *port),
    };
    let store = StoreConfig {
        local_hostname,
        metadata_server: metadata.to_owned(),
        global_segment_bytes: config.segment_bytes,
        local_buffer_bytes: 0,
        protocol: config.protocol.clone(),
        device_name: config.device_names.clone(),
        master_server_address: config.master.clone(),
        tenant_id: config.tenant.name().to_owned(),
        http_port: None,
        disks: config.disks.clone(),
    };
    if !phase.join() {
        return Err(OpeningError::Stopped);
    }
    // A store that could not be opened has left the cluster again.
    Store::open_with(store, &config.environment)
        .map_err(|error| if phase.wait_on() { refusal(error) } else { OpeningError::Stopped })
}

fn refusal(error: StoreError) -> OpeningError {
    let not_yet = match &error {
        StoreError::Metadata { .. } => return OpeningError::Metadata(error.to_string()),
        StoreError::Setting(SettingError { name, reason, .. }) => {
            let setting = if *name == LOCAL_HOSTNAME { "host" } else { name };
            let conflict = format!("Setting `{setting}` cannot be used: {reason}");
            return OpeningError::Final(FlagError::Conflict(conflict).into());
        }
        StoreError::Master(CallError::Refused { status, .. }) => {
            *status == Status::UnavailableInCurrentStatus
        }
        StoreError::Master(call) => matches!(
            call,
            CallError::Unreachable { .. }
                | CallError::Broken { .. }
                | CallError::Io(_)
                | CallError::Deadline(_)
        ),
        _ => false,
    };
    if not_yet {
        OpeningError::NotYet(Obstacle::new(error.to_string(), error.status()))
    } else {
        OpeningError::Final(error.into())
    }
}

fn is_optional(metadata: &Metadata) -> bool {
    matches!(metadata, Metadata::IfThere(_))
}

/// Asks whether the metadata service listens, before memory is allocated for nothing.
fn probe_metadata(server: &str) -> Result<(), OpeningError> {
    let Some(rest) = server.strip_prefix("http://") else {
        return Ok(());
    };
    let authority = rest.split('/').next().unwrap_or_default();
    let address = match authority.rsplit_once(':') {
        Some((_, port)) if port.parse::<u16>().is_ok() => authority.to_owned(),
        _ => format!("{authority}:{HTTP_PORT}"),
    };
    probe(&address).map_err(|error| {
        OpeningError::Metadata(format!("Metadata service {server} cannot be reached: {error}"))
    })
}

/// What was logged last: one line per obstacle, and again after a while.
#[derive(Default)]
struct Reported {
    last: Option<(String, Instant)>,
}

impl Reported {
    fn report(&mut self, reason: &str, remaining_s: u64) {
        if self.is_known(reason) {
            return;
        }
        tracing::warn!(remaining_s, "Not in the cluster yet, retrying: {reason}");
        self.last = Some((reason.to_owned(), Instant::now()));
    }

    fn is_known(&self, reason: &str) -> bool {
        self.last
            .as_ref()
            .is_some_and(|(last, at)| last == reason && at.elapsed() < OBSTACLE_LOG_PAUSE)
    }
}

#[cfg(test)]
mod tests;
