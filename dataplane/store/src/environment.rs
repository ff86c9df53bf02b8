//! The environment variables a client reads, in one place. Mooncake's names are taken where they mean the same.

use crate::error::StoreError;
use crate::ports::{self, PortRange};
use perigee_discovery::DiscoveryError;
use perigee_rails::RailOptions;
use perigee_shard::{Congestion, POLL_DEFAULT};
use perigee_transfer::{GivenFabric, Routes, TRANSFER_DEADLINE};
use std::str::FromStr;
use std::time::Duration;

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
    /// Most RDMA queue pairs of a shard between the same two NICs (`MC_NUM_QP_PER_EP`, 1 to 32); `None` lets the rails
    /// choose: 4 to a peer of few NICs.
    pub queue_pairs_per_rail: Option<usize>,
    /// Longest a slice may take (`MC_TRANSFER_TIMEOUT`, in seconds).
    pub transfer_deadline: Duration,
    /// Longest a call to the master may take (`PERIGEE_RPC_TIMEOUT_MS`, else `MC_RPC_TIMEOUT_MS`).
    pub call_deadline: Duration,
    /// The data port, if no other client has it; another port otherwise. Ignored with a range in `ports`.
    pub data_port: Option<u16>,
    /// Ports for the data port, and for names without one (`MC_STORE_CLIENT_MIN_PORT`, `MC_STORE_CLIENT_MAX_PORT`);
    /// without them the system chooses data ports.
    pub ports: Option<PortRange>,
    /// NUMA node of donated memory (`MC_STORE_NUMA_SOCKET_ID`).
    pub numa_node: Option<u32>,
    /// Donate huge pages (`MC_STORE_USE_HUGEPAGE`: set to anything).
    pub huge_pages: bool,
    /// Address of the data port (`MC_TCP_BIND_ADDRESS`), and how metadata services are talked to.
    pub discovery: perigee_discovery::Settings,
    /// Stands in for the host's RDMA devices.
    pub fabric: Option<GivenFabric>,
}

impl StoreEnvironment {
    /// Reads the process's variables.
    ///
    /// # Errors
    /// A variable has a value that cannot be understood; the error names it.
    pub fn read() -> Result<Self, StoreError> {
        Self::from_variables(|name| std::env::var(name).ok().filter(|value| !value.is_empty()))
    }

    /// Reads variables from anywhere.
    ///
    /// # Errors
    /// As [`StoreEnvironment::read`].
    pub fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Result<Self, StoreError> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let shards = (cores / 8).clamp(1, 4);
        let millis = match number(&variable, "PERIGEE_RPC_TIMEOUT_MS")? {
            Some(millis) => Some(millis),
            None => number(&variable, "MC_RPC_TIMEOUT_MS")?,
        };
        let seconds = number(&variable, "MC_TRANSFER_TIMEOUT")?;
        Ok(Self {
            routes: Routes {
                same_process: switch(&variable, "PERIGEE_SAME_PROCESS")?,
                shared_memory: switch(&variable, "PERIGEE_SHARED_MEMORY")?,
            },
            congestion: match variable("PERIGEE_TCP_CONGESTION").as_deref() {
                None | Some("auto") => Congestion::Automatic,
                Some("host") => Congestion::Host,
                Some(name) => Congestion::Named(name.into()),
            },
            client_shards: number(&variable, "PERIGEE_CLIENT_SHARDS")?
                .unwrap_or(shards)
                .clamp(1, 64),
            data_shards: number(&variable, "PERIGEE_DATA_SHARDS")?
                .unwrap_or(shards)
                .clamp(1, 64),
            data_cpus: numbers(&variable, "PERIGEE_DATA_CPUS")?,
            poll: number(&variable, "PERIGEE_POLL_US")?.map_or(POLL_DEFAULT, Duration::from_micros),
            queue_pairs_per_rail: queue_pairs(&variable)?,
            transfer_deadline: seconds
                .map_or(TRANSFER_DEADLINE, |s: u64| Duration::from_secs(s.max(1))),
            call_deadline: millis.map_or(perigee_rpc::CALL_DEADLINE, |ms: u64| {
                Duration::from_millis(ms.max(10))
            }),
            data_port: None,
            ports: PortRange::between(
                port(&variable, ports::FIRST)?,
                port(&variable, ports::LAST)?,
            )?,
            numa_node: number(&variable, "MC_STORE_NUMA_SOCKET_ID")?,
            huge_pages: variable("MC_STORE_USE_HUGEPAGE").is_some(),
            discovery: discovery(&variable)?,
            fabric: None,
        })
    }
}

fn discovery(
    variable: &impl Fn(&str) -> Option<String>,
) -> Result<perigee_discovery::Settings, StoreError> {
    let read = perigee_discovery::Settings::from_variables(variable);
    read.map_err(|error| match error {
        DiscoveryError::Setting {
            name,
            value,
            reason,
        } => StoreError::Config {
            name,
            value,
            reason,
        },
        other => StoreError::System(other.to_string()),
    })
}

fn number<T: FromStr>(
    variable: &impl Fn(&str) -> Option<String>,
    name: &'static str,
) -> Result<Option<T>, StoreError> {
    let Some(value) = variable(name) else {
        return Ok(None);
    };
    let parsed = value
        .trim()
        .parse()
        .map_err(|_| refuse(name, &value, "it is not understood; remove or correct it"));
    parsed.map(Some)
}

fn queue_pairs(variable: &impl Fn(&str) -> Option<String>) -> Result<Option<usize>, StoreError> {
    const NAME: &str = RailOptions::QUEUE_PAIRS_VARIABLE;
    let refused = |text: &str, reason: String| refuse(NAME, text, &reason);
    variable(NAME)
        .map(|text| RailOptions::queue_pairs(&text).map_err(|reason| refused(&text, reason)))
        .transpose()
}

fn port(
    variable: &impl Fn(&str) -> Option<String>,
    name: &'static str,
) -> Result<Option<u16>, StoreError> {
    let Some(value) = variable(name) else {
        return Ok(None);
    };
    let parsed = value.trim().parse();
    let parsed = parsed.map_err(|_| refuse(name, &value, "write a port from 1 to 65535"));
    parsed.map(Some)
}

fn numbers(
    variable: &impl Fn(&str) -> Option<String>,
    name: &'static str,
) -> Result<Vec<usize>, StoreError> {
    let Some(value) = variable(name) else {
        return Ok(Vec::new());
    };
    let one = |text: &str| {
        text.trim()
            .parse()
            .map_err(|_| refuse(name, &value, "write numbers like 0,2,4"))
    };
    value.split(',').map(one).collect()
}

fn switch(
    variable: &impl Fn(&str) -> Option<String>,
    name: &'static str,
) -> Result<bool, StoreError> {
    match variable(name)
        .as_deref()
        .map(str::to_ascii_lowercase)
        .as_deref()
    {
        None | Some("1" | "true" | "yes" | "on") => Ok(true),
        Some("0" | "false" | "no" | "off") => Ok(false),
        Some(other) => Err(refuse(name, other, "write 0 or 1")),
    }
}

fn refuse(name: &'static str, value: &str, reason: &str) -> StoreError {
    StoreError::Config {
        name,
        value: value.to_owned(),
        reason: reason.to_owned(),
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
        assert!(
            !with("PERIGEE_SHARED_MEMORY", "0")
                .unwrap()
                .routes
                .shared_memory
        );
        assert_eq!(
            with("MC_TRANSFER_TIMEOUT", "7").unwrap().transfer_deadline,
            Duration::from_secs(7)
        );
        for name in ["PERIGEE_RPC_TIMEOUT_MS", "MC_RPC_TIMEOUT_MS"] {
            let deadline = with(name, "1500").unwrap().call_deadline;
            assert_eq!(deadline, Duration::from_millis(1500), "{name}");
        }
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
        assert!(
            error.to_string().contains("PERIGEE_CLIENT_SHARDS"),
            "{error}"
        );
    }
}
