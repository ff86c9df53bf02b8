//! How an engine is set up: the four arguments Mooncake's clients pass, and the variables of the
//! environment.
//! Invariant: a value that cannot be used is refused by name before anything is started.

use crate::error::EngineError;
use crate::limits::{REPORT_INTERVAL, REPORT_SECONDS_MAX, TRANSFER_DEADLINE};
use crate::observer::{BatchObserver, Unobserved};
use perigee_device::GivenDevices;
use perigee_discovery::DiscoverySettings;
use perigee_rdma::{GivenFabric, RailTuning, rail_tuning};
use perigee_settings::{
    DataPath, ForcedTransport, Protocols, TCP_CONGESTION, Variables, check_congestion, warn_once,
};
use perigee_shard::Congestion;
use perigee_topology::CUSTOM_MATRIX_VARIABLE;
use std::sync::Arc;
use std::time::Duration;

/// Most shards of an engine.
const SHARDS_MAX: usize = 64;

/// Everything an engine is started with.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// `host`, `host:port` or `[v6]:port`: the name others use; no port or port 0 chooses one.
    pub local_name: String,
    /// `P2PHANDSHAKE`, `http://host:port/metadata`, `etcd://host:port,…` or `redis://host:port`.
    pub metadata: String,
    /// `tcp`, `rdma`, `shm`, several with commas, or nothing: RDMA where it works and TCP
    /// elsewhere. Bytes that RDMA alone was named for go over TCP, too, where it does not work.
    /// Segments of peers on this host are always copied directly, unless
    /// [`EngineOptions::shares_memory`] is off.
    pub protocol: String,
    /// Names of RDMA devices, a map from rank to device, or the path of a file with such a map;
    /// empty = all.
    pub devices: String,
    /// A matrix of NICs by memory location as JSON, or the file with it, in place of the one found
    /// (`MC_CUSTOM_TOPO_JSON`).
    pub topology: Option<String>,
    /// Deadline of batches that name none (`MC_TRANSFER_TIMEOUT`, seconds).
    pub deadline: Duration,
    /// Also serve Mooncake's data protocol, which cannot tell addresses of an earlier run
    /// (`PERIGEE_SERVE_MOONCAKE`).
    pub serve_upstream: bool,
    /// Check a CRC-32C of every piece at the other end (`PERIGEE_TRANSFER_CHECKSUM`); off by
    /// default: TCP's and RDMA's own checks remain.
    pub with_checksum: bool,
    /// Hand managed buffers and segments to peers on this host, and use theirs
    /// (`PERIGEE_SHARED_MEMORY`); on by default.
    pub shares_memory: bool,
    /// Refuse to start if RDMA is among the protocols and no device works (`PERIGEE_REQUIRE_RDMA`,
    /// `MC_FORCE_HCA`); off by default: TCP is used then.
    pub requires_rdma: bool,
    /// RDMA devices are found whatever names were given, or have to be named (`MC_MS_AUTO_DISC`).
    pub auto_discovery: Option<bool>,
    /// How rails enter the network, cut and try again (`MC_IB_TC`, `MC_SLICE_SIZE`, …).
    pub rails: RailTuning,
    /// Shards that serve peers and move asynchronous batches (`PERIGEE_ENGINE_SHARDS`).
    pub shards: usize,
    /// How long a shard polls after its last completion (`PERIGEE_POLL_US`).
    pub poll: Duration,
    /// Most RDMA queue pairs of a shard between the same two NICs (`MC_NUM_QP_PER_EP`, 1 to 32);
    /// `None` lets the rails choose: 4 to a peer of few NICs.
    pub queue_pairs_per_rail: Option<usize>,
    /// Congestion control of data sockets (`PERIGEE_TCP_CONGESTION`: a name, `host`, or `auto`).
    pub congestion: Congestion,
    /// Ports, deadlines and secrets of the handshake and the metadata backends.
    pub discovery: DiscoverySettings,
    /// Stands in for the host's accelerators; `None` looks for CUDA's driver.
    pub accelerators: Option<GivenDevices>,
    /// Stands in for the host's RDMA devices.
    pub fabric: Option<GivenFabric>,
    /// How often a line in the log says what was read and written (`MC_TE_METRIC`,
    /// `MC_TE_METRIC_INTERVAL_SECONDS`); `None` writes none.
    pub report_interval: Option<Duration>,
    /// Who counts.
    pub observer: Arc<dyn BatchObserver>,
}

impl EngineOptions {
    /// Options from the four arguments and the environment of the process; says once which of
    /// Mooncake's variables have no effect.
    ///
    /// # Errors
    /// An argument or a variable cannot be used; the error names it.
    pub fn new(
        local_name: &str,
        metadata: &str,
        protocol: &str,
        devices: &str,
    ) -> Result<Self, EngineError> {
        let variable = Variables::of_process;
        warn_once(&Variables::new(&variable));
        let options = Self::from_variables(local_name, metadata, protocol, devices, variable)?;
        check_congestion(TCP_CONGESTION.name, &options.congestion)?;
        Ok(options)
    }

    /// As [`EngineOptions::new`], with variables from anywhere.
    ///
    /// # Errors
    /// As [`EngineOptions::new`].
    pub fn from_variables(
        local_name: &str,
        metadata: &str,
        protocol: &str,
        devices: &str,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, EngineError> {
        let variables = Variables::new(&variable);
        let path = DataPath::read(&variables)?;
        Protocols::parse(protocol)?;
        let protocol = match path.forced {
            None => protocol,
            Some(ForcedTransport::Tcp) => "tcp",
            Some(ForcedTransport::Rdma) => "rdma",
        };
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Ok(Self {
            local_name: local_name.to_owned(),
            metadata: metadata.to_owned(),
            protocol: protocol.to_owned(),
            devices: devices.to_owned(),
            topology: variables.text(CUSTOM_MATRIX_VARIABLE),
            deadline: path.transfer_deadline.unwrap_or(TRANSFER_DEADLINE),
            serve_upstream: variables.switch("PERIGEE_SERVE_MOONCAKE", false)?,
            shares_memory: path.shares_memory,
            requires_rdma: path.requires_rdma || path.forced == Some(ForcedTransport::Rdma),
            auto_discovery: path.auto_discovery,
            rails: rail_tuning(&variables)?,
            with_checksum: variables.switch("PERIGEE_TRANSFER_CHECKSUM", false)?,
            shards: variables
                .within("PERIGEE_ENGINE_SHARDS", 1..=SHARDS_MAX)?
                .unwrap_or((cores / 8).clamp(1, 8)),
            poll: path.poll,
            queue_pairs_per_rail: path.queue_pairs_per_rail,
            congestion: path.congestion,
            discovery: DiscoverySettings::from_variables(&variable).map_err(EngineError::from)?,
            accelerators: None,
            fabric: None,
            report_interval: report_interval(&variables)?,
            observer: Arc::new(Unobserved),
        })
    }
}

fn report_interval(variables: &Variables<'_>) -> Result<Option<Duration>, EngineError> {
    let seconds = variables.within("MC_TE_METRIC_INTERVAL_SECONDS", 1..=REPORT_SECONDS_MAX)?;
    let is_wanted = variables.switch("MC_TE_METRIC", false)?;
    let interval = seconds.map_or(REPORT_INTERVAL, Duration::from_secs);
    Ok(is_wanted.then_some(interval))
}

impl EngineOptions {
    /// A variable as the topology reads it.
    pub(crate) fn topology_variable(&self, name: &str) -> Option<String> {
        match name {
            CUSTOM_MATRIX_VARIABLE => self.topology.clone(),
            _ => std::env::var(name).ok(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(name: &str, value: &str) -> Result<EngineOptions, EngineError> {
        let variable = |asked: &str| (asked == name).then(|| value.to_owned());
        EngineOptions::from_variables("h", "P2PHANDSHAKE", "tcp", "", variable)
    }

    #[test]
    fn variables_are_understood_or_refused_by_name() {
        assert_eq!(with("MC_TRANSFER_TIMEOUT", "60").unwrap().deadline, Duration::from_secs(60));
        assert!(with("PERIGEE_SERVE_MOONCAKE", "1").unwrap().serve_upstream);
        assert!(with("PERIGEE_REQUIRE_RDMA", "1").unwrap().requires_rdma);
        assert!(!with("", "").unwrap().requires_rdma);
        let forced =
            |name| with(name, "1").map(|options| (options.protocol, options.requires_rdma));
        assert_eq!(forced("MC_FORCE_TCP").unwrap(), ("tcp".to_owned(), false));
        assert_eq!(forced("MC_FORCE_HCA").unwrap(), ("rdma".to_owned(), true));
        assert!(with("", "").unwrap().shares_memory);
        assert!(!with("PERIGEE_SHARED_MEMORY", "0").unwrap().shares_memory);
        assert_eq!(with("MC_TE_METRIC", "on").unwrap().report_interval, Some(REPORT_INTERVAL));
        assert_eq!(with("MC_TE_METRIC_INTERVAL_SECONDS", "9").unwrap().report_interval, None);
        assert!(with("MC_TE_METRIC_INTERVAL_SECONDS", "0").is_err());
        let error = with("PERIGEE_ENGINE_SHARDS", "many").unwrap_err();
        assert!(error.to_string().contains("PERIGEE_ENGINE_SHARDS"), "{error}");
    }
}
