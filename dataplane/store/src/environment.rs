//! The environment variables a client reads, in one place. Mooncake's names are taken where they
//! mean the same.

use crate::error::StoreError;
use crate::limits::REPORT_SECONDS_MAX;
use crate::port_range::{FIRST, LAST, PortRange};
use perigee_device::GivenDevices;
use perigee_discovery::DiscoverySettings;
use perigee_memory::size::parse_bytes;
use perigee_rdma::{GivenFabric, RailTuning, rail_tuning};
use perigee_settings::{
    DataPath, ForcedTransport, SettingError, TCP_CONGESTION, Variables, check_congestion, warn_once,
};
use perigee_shard::Congestion;
use perigee_transfer::{Routes, TRANSFER_DEADLINE};
use std::time::Duration;

/// Most shards of a kind.
const SHARDS_MAX: usize = 64;
/// Bounds of the deadline of a call, in milliseconds; shorter ones count as the first.
const CALL_DEADLINE_MS_MIN: u64 = 10;
const CALL_DEADLINE_MS_MAX: u64 = 3_600_000;

/// Sizes of huge pages that can be asked for.
const HUGE_PAGE_BYTES: [u64; 2] = [2 << 20, 1 << 30];

/// Settings of a client that are not part of `setup`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreEnvironment {
    /// Allowed routes (`PERIGEE_SHARED_MEMORY`, `PERIGEE_SAME_PROCESS`: 0 turns one off).
    pub routes: Routes,
    /// Congestion control of data sockets (`PERIGEE_TCP_CONGESTION`: a name, `host`, or `auto`).
    pub congestion: Congestion,
    /// Shards that move slices over TCP (`PERIGEE_CLIENT_SHARDS`).
    pub client_shards: usize,
    /// Shards that serve donated segments (`PERIGEE_DATA_SHARDS`).
    pub data_shards: usize,
    /// CPUs for the data shards (`PERIGEE_DATA_CPUS`: comma-separated numbers).
    pub data_cpus: Vec<usize>,
    /// How long a shard polls after its last completion (`PERIGEE_POLL_US`).
    pub poll: Duration,
    /// Most RDMA queue pairs of a shard between the same two NICs (`MC_NUM_QP_PER_EP`, 1 to 32);
    /// `None` lets the rails choose: 4 to a peer of few NICs.
    pub queue_pairs_per_rail: Option<usize>,
    /// What is used whatever the protocol says (`MC_FORCE_TCP`, `MC_FORCE_HCA`).
    pub forced: Option<ForcedTransport>,
    /// RDMA devices are found whatever names were given, or have to be named (`MC_MS_AUTO_DISC`).
    pub auto_discovery: Option<bool>,
    /// How rails enter the network, cut and try again (`MC_IB_TC`, `MC_SLICE_SIZE`, …).
    pub rails: RailTuning,
    /// RDMA that does not work is an error if the protocol names it (`PERIGEE_REQUIRE_RDMA`).
    pub requires_rdma: bool,
    /// Longest a slice may take (`MC_TRANSFER_TIMEOUT`, in seconds).
    pub transfer_deadline: Duration,
    /// Longest a call to the master may take (`PERIGEE_RPC_TIMEOUT_MS`, else `MC_RPC_TIMEOUT_MS`).
    pub call_deadline: Duration,
    /// Longest a connection to the master may take to open, within a call
    /// (`MC_RPC_CONNECT_TIMEOUT_MS`).
    pub connect_deadline: Duration,
    /// The data port, if no other client has it; another port otherwise. Ignored with a range in
    /// `ports`.
    pub data_port: Option<u16>,
    /// Ports for the data port, and for names without one (`MC_STORE_CLIENT_MIN_PORT`,
    /// `MC_STORE_CLIENT_MAX_PORT`); without them the system chooses data ports.
    pub ports: Option<PortRange>,
    /// NUMA node of donated memory (`MC_STORE_NUMA_SOCKET_ID`).
    pub numa_node: Option<u32>,
    /// Donate huge pages (`MC_STORE_USE_HUGEPAGE`: set to anything).
    pub huge_pages: bool,
    /// Their size (`MC_STORE_HUGEPAGE_SIZE`), if it is not the system's usual one.
    pub huge_page_bytes: Option<u64>,
    /// Donate as much as was asked for or nothing (`PERIGEE_STRICT_SEGMENT=1`); else as much as
    /// there is.
    pub strict_segment: bool,
    /// Metrics are shown on the HTTP port (`MC_STORE_CLIENT_METRIC`); on by default.
    pub shows_metrics: bool,
    /// How often a line in the log says what was read and written
    /// (`MC_STORE_CLIENT_METRIC_INTERVAL`, in seconds); `None` without metrics, or with 0.
    pub report_interval: Option<Duration>,
    /// Address of the data port (`MC_TCP_BIND_ADDRESS`), and how metadata services are talked to.
    pub discovery: DiscoverySettings,
    /// Stands in for the host's accelerators; `None` looks for CUDA's driver.
    pub accelerators: Option<GivenDevices>,
    /// Stands in for the host's RDMA devices.
    pub fabric: Option<GivenFabric>,
}

impl StoreEnvironment {
    /// Reads the process's variables, and says once which of Mooncake's have no effect.
    ///
    /// # Errors
    /// A variable has a value that cannot be understood; the error names it.
    pub fn read() -> Result<Self, StoreError> {
        warn_once(&Variables::new(&Variables::of_process));
        let environment = Self::from_variables(Variables::of_process)?;
        check_congestion(TCP_CONGESTION.name, &environment.congestion)?;
        Ok(environment)
    }

    /// Reads variables from anywhere.
    ///
    /// # Errors
    /// As [`StoreEnvironment::read`].
    pub fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Result<Self, StoreError> {
        let variables = Variables::new(&variable);
        let path = DataPath::read(&variables)?;
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let shards = (cores / 8).clamp(1, 4);
        let shards_of = |name| -> Result<usize, StoreError> {
            Ok(variables.within(name, 1..=SHARDS_MAX)?.unwrap_or(shards))
        };
        check_rpc_protocol(&variables)?;
        let call_deadline_of = |name| variables.within(name, 1..=CALL_DEADLINE_MS_MAX);
        let call_deadline = match call_deadline_of("PERIGEE_RPC_TIMEOUT_MS")? {
            Some(millis) => Some(millis),
            None => call_deadline_of("MC_RPC_TIMEOUT_MS")?,
        };
        let port = |name| variables.within(name, 1..=u16::MAX);
        Ok(Self {
            routes: Routes {
                same_process: variables.switch("PERIGEE_SAME_PROCESS", true)?,
                shared_memory: path.shares_memory,
            },
            congestion: path.congestion,
            client_shards: shards_of("PERIGEE_CLIENT_SHARDS")?,
            data_shards: shards_of("PERIGEE_DATA_SHARDS")?,
            data_cpus: variables.numbers("PERIGEE_DATA_CPUS")?,
            poll: path.poll,
            queue_pairs_per_rail: path.queue_pairs_per_rail,
            forced: path.forced,
            auto_discovery: path.auto_discovery,
            rails: rail_tuning(&variables)?,
            requires_rdma: path.requires_rdma,
            transfer_deadline: path.transfer_deadline.unwrap_or(TRANSFER_DEADLINE),
            call_deadline: call_deadline.map_or(perigee_rpc::CALL_DEADLINE, |ms| {
                Duration::from_millis(ms.max(CALL_DEADLINE_MS_MIN))
            }),
            connect_deadline: call_deadline_of("MC_RPC_CONNECT_TIMEOUT_MS")?
                .map_or(perigee_rpc::CONNECT_DEADLINE, Duration::from_millis),
            data_port: None,
            ports: PortRange::between(port(FIRST)?, port(LAST)?)?,
            numa_node: variables.parsed("MC_STORE_NUMA_SOCKET_ID", "the number of a NUMA node")?,
            huge_pages: variables.text("MC_STORE_USE_HUGEPAGE").is_some(),
            huge_page_bytes: huge_page_bytes(&variables)?,
            strict_segment: variables.switch("PERIGEE_STRICT_SEGMENT", false)?,
            shows_metrics: variables.switch("MC_STORE_CLIENT_METRIC", true)?,
            report_interval: report_interval(&variables)?,
            discovery: DiscoverySettings::from_variables(&variable)?,
            accelerators: None,
            fabric: None,
        })
    }
}

fn report_interval(variables: &Variables<'_>) -> Result<Option<Duration>, StoreError> {
    let seconds = variables.within("MC_STORE_CLIENT_METRIC_INTERVAL", 0..=REPORT_SECONDS_MAX)?;
    let shown = variables.switch("MC_STORE_CLIENT_METRIC", true)?;
    let wanted = seconds.filter(|seconds| *seconds > 0 && shown);
    Ok(wanted.map(Duration::from_secs))
}

fn huge_page_bytes(variables: &Variables<'_>) -> Result<Option<u64>, StoreError> {
    const NAME: &str = "MC_STORE_HUGEPAGE_SIZE";
    let Some(text) = variables.text(NAME) else {
        return Ok(None);
    };
    match parse_bytes(&text) {
        Ok(bytes) if HUGE_PAGE_BYTES.contains(&bytes) => Ok(Some(bytes)),
        _ => Err(SettingError::new(NAME, &text, "write 2MB or 1GB").into()),
    }
}

/// Calls to the master go over TCP; Mooncake's other transport gives a warning.
fn check_rpc_protocol(variables: &Variables<'_>) -> Result<(), StoreError> {
    const NAME: &str = "MC_RPC_PROTOCOL";
    match variables.text(NAME).as_deref() {
        None | Some("tcp") => Ok(()),
        Some("rdma") => {
            tracing::warn!("{NAME} is rdma and has no effect; calls to the master go over TCP");
            Ok(())
        }
        Some(other) => Err(SettingError::new(NAME, other, "write tcp").into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(name: &str, value: &str) -> Result<StoreEnvironment, StoreError> {
        StoreEnvironment::from_variables(|asked| (asked == name).then(|| value.to_owned()))
    }

    #[test]
    fn everything_is_allowed_by_default() {
        let environment = StoreEnvironment::from_variables(|_| None).unwrap();
        assert_eq!(environment.routes, Routes::default());
        assert_eq!(environment.transfer_deadline, TRANSFER_DEADLINE);
    }

    #[test]
    fn variables_are_understood_or_refused_by_name() {
        assert!(!with("PERIGEE_SHARED_MEMORY", "0").unwrap().routes.shared_memory);
        assert_eq!(
            with("MC_TRANSFER_TIMEOUT", "7").unwrap().transfer_deadline,
            Duration::from_secs(7)
        );
        for name in ["PERIGEE_RPC_TIMEOUT_MS", "MC_RPC_TIMEOUT_MS"] {
            let deadline = with(name, "1500").unwrap().call_deadline;
            assert_eq!(deadline, Duration::from_millis(1500), "{name}");
        }
        let deadline = with("MC_RPC_CONNECT_TIMEOUT_MS", "250").unwrap().connect_deadline;
        assert_eq!(deadline, Duration::from_millis(250));
        assert_eq!(with("MC_STORE_HUGEPAGE_SIZE", "1gb").unwrap().huge_page_bytes, Some(1 << 30));
        for (name, value) in [
            ("MC_RPC_CONNECT_TIMEOUT_MS", "0"),
            ("MC_RPC_PROTOCOL", "udp"),
            ("MC_STORE_HUGEPAGE_SIZE", "4MB"),
            ("MC_STORE_CLIENT_METRIC", "some"),
            ("MC_STORE_CLIENT_METRIC_INTERVAL", "-1"),
        ] {
            let error = with(name, value).unwrap_err().to_string();
            assert!(error.contains(name), "{error}");
        }
        assert!(with("MC_RPC_PROTOCOL", "rdma").is_ok());
        assert_eq!(with("PERIGEE_DATA_CPUS", "0, 3").unwrap().data_cpus, [0, 3]);
        let bound = with("MC_NUM_QP_PER_EP", "2").unwrap().queue_pairs_per_rail;
        assert_eq!(bound, Some(2));
        for text in ["0", "33", "two"] {
            let error = with("MC_NUM_QP_PER_EP", text).unwrap_err().to_string();
            assert!(error.contains("MC_NUM_QP_PER_EP"), "{error}");
        }
        for wrong in ["abc", "-1", "65536", "0", "1.5"] {
            let error = with("MC_STORE_CLIENT_MIN_PORT", wrong).unwrap_err();
            let text = error.to_string();
            assert!(text.contains("MC_STORE_CLIENT_MIN_PORT"), "{text}");
            assert!(text.contains("1 to 65535"), "{text}");
        }
        let error = with("PERIGEE_CLIENT_SHARDS", "many").unwrap_err();
        assert!(error.to_string().contains("PERIGEE_CLIENT_SHARDS"), "{error}");
    }
}
