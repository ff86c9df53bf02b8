//! How an engine is set up: the four arguments Mooncake's clients pass, and the variables of the environment.
//! Invariant: a value that cannot be used is refused by name before anything is started.

use perigee_device::GivenDevices;
use crate::error::EngineError;
use crate::limits::{TRANSFER_DEADLINE, TRANSFER_DEADLINE_MIN};
use crate::observer::{Observer, Unobserved};
use crate::rdma::GivenFabric;
use perigee_discovery::Settings;
use perigee_rails::RailOptions;
use perigee_shard::{Congestion, POLL_DEFAULT};
use perigee_topology::CUSTOM_MATRIX_VARIABLE;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

/// The variable behind [`EngineOptions::requires_rdma`].
pub(crate) const REQUIRE_RDMA_VARIABLE: &str = "PERIGEE_REQUIRE_RDMA";

/// Ways to other engines that an engine may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Protocols {
    /// Sockets.
    pub tcp: bool,
    /// Verbs; the engine starts without if there are no devices, unless [`EngineOptions::requires_rdma`] is set.
    pub rdma: bool,
    /// Nothing but memory shared with peers on this host. Beside the others it says nothing: memory that can be shared is.
    pub shm: bool,
}

/// Everything an engine is started with.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// `host`, `host:port` or `[v6]:port`: the name others use; no port or port 0 chooses one.
    pub local_name: String,
    /// `P2PHANDSHAKE`, `http://host:port/metadata`, `etcd://host:port,…` or `redis://host:port`.
    pub metadata: String,
    /// `tcp`, `rdma`, `shm`, several with commas, or nothing: RDMA where it works and TCP elsewhere. Bytes that RDMA alone
    /// was named for go over TCP, too, where it does not work. Segments of peers on this host are always copied directly,
    /// unless [`EngineOptions::shares_memory`] is off.
    pub protocol: String,
    /// Names of RDMA devices, a map from rank to device, or the path of a file with such a map; empty = all.
    pub devices: String,
    /// File with a matrix of NICs by memory location, in place of the one found (`MC_CUSTOM_TOPO_JSON`).
    pub topology_file: Option<String>,
    /// Deadline of batches that name none (`MC_TRANSFER_TIMEOUT`, seconds).
    pub deadline: Duration,
    /// Also serve Mooncake's data protocol, which cannot tell addresses of an earlier life (`PERIGEE_SERVE_MOONCAKE`).
    pub serve_upstream: bool,
    /// Check a CRC-32C of every piece at the other end (`PERIGEE_TRANSFER_CHECKSUM`); off by default: TCP's and RDMA's own
    /// checks remain.
    pub with_checksum: bool,
    /// Hand managed buffers and segments to peers on this host, and use theirs (`PERIGEE_SHARED_MEMORY`); on by default.
    pub shares_memory: bool,
    /// Refuse to start if RDMA is among the protocols and no device works (`PERIGEE_REQUIRE_RDMA`); off by default: TCP is
    /// used then.
    pub requires_rdma: bool,
    /// Shards that serve peers and move asynchronous batches (`PERIGEE_ENGINE_SHARDS`).
    pub shards: usize,
    /// How long a shard polls after its last completion (`PERIGEE_POLL_US`).
    pub poll: Duration,
    /// Most RDMA queue pairs of a shard between the same two NICs (`MC_NUM_QP_PER_EP`, 1 to 32); `None` lets the rails
    /// choose: 4 to a peer of few NICs.
    pub queue_pairs_per_rail: Option<usize>,
    /// Congestion control of data sockets (`PERIGEE_TCP_CONGESTION`: a name, `host`, or `auto`).
    pub congestion: Congestion,
    /// Ports, deadlines and secrets of the handshake and the metadata backends.
    pub discovery: Settings,
    /// Stands in for the host's accelerators; `None` looks for CUDA's driver.
    pub accelerators: Option<GivenDevices>,
    /// Stands in for the host's RDMA devices.
    pub fabric: Option<GivenFabric>,
    /// Who counts.
    pub observer: Arc<dyn Observer>,
}

impl EngineOptions {
    /// Options from the four arguments and the environment of the process.
    ///
    /// # Errors
    /// An argument or a variable cannot be used; the error names it.
    pub fn new(
        local_name: &str,
        metadata: &str,
        protocol: &str,
        devices: &str,
    ) -> Result<Self, EngineError> {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        Self::from_variables(local_name, metadata, protocol, devices, variable)
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
        let force_tcp = variable("MC_FORCE_TCP").is_some_and(|value| value != "0");
        let protocol = if force_tcp { "tcp" } else { protocol };
        Protocols::parse(protocol)?;
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let seconds = number(&variable, "MC_TRANSFER_TIMEOUT")?.map(Duration::from_secs);
        Ok(Self {
            local_name: local_name.to_owned(),
            metadata: metadata.to_owned(),
            protocol: protocol.to_owned(),
            devices: devices.to_owned(),
            topology_file: variable(CUSTOM_MATRIX_VARIABLE),
            deadline: seconds.map_or(TRANSFER_DEADLINE, |given| given.max(TRANSFER_DEADLINE_MIN)),
            serve_upstream: switch(&variable, "PERIGEE_SERVE_MOONCAKE")?,
            shares_memory: switch_or(&variable, "PERIGEE_SHARED_MEMORY", true)?,
            requires_rdma: switch(&variable, REQUIRE_RDMA_VARIABLE)?,
            with_checksum: switch(&variable, "PERIGEE_TRANSFER_CHECKSUM")?,
            shards: number(&variable, "PERIGEE_ENGINE_SHARDS")?
                .unwrap_or((cores / 8).clamp(1, 8))
                .clamp(1, 64),
            poll: number(&variable, "PERIGEE_POLL_US")?.map_or(POLL_DEFAULT, Duration::from_micros),
            queue_pairs_per_rail: queue_pairs(&variable)?,
            congestion: match variable("PERIGEE_TCP_CONGESTION").as_deref() {
                None | Some("auto") => Congestion::Automatic,
                Some("host") => Congestion::Host,
                Some(name) => Congestion::Named(name.into()),
            },
            discovery: Settings::from_variables(&variable).map_err(EngineError::from)?,
            accelerators: None,
            fabric: None,
            observer: Arc::new(Unobserved),
        })
    }
}

impl EngineOptions {
    /// A variable as the topology reads it.
    pub(crate) fn topology_variable(&self, name: &str) -> Option<String> {
        match name {
            CUSTOM_MATRIX_VARIABLE => self.topology_file.clone(),
            _ => std::env::var(name).ok(),
        }
    }
}

impl Protocols {
    /// Reads the protocol argument.
    ///
    /// # Errors
    /// A name is not known; the error lists those that are.
    pub fn parse(text: &str) -> Result<Self, EngineError> {
        let mut wanted = Protocols::default();
        for word in text
            .split(',')
            .map(str::trim)
            .filter(|word| !word.is_empty())
        {
            match word.to_ascii_lowercase().as_str() {
                "tcp" => wanted.tcp = true,
                "rdma" => wanted.rdma = true,
                "shm" => wanted.shm = true,
                _ => {
                    return Err(EngineError::Setting {
                        name: "protocol",
                        value: word.to_owned(),
                        reason: "write tcp, rdma or shm, several with commas, or nothing to choose"
                            .to_owned(),
                    });
                }
            }
        }
        if wanted == Protocols::default() {
            wanted = Protocols {
                tcp: true,
                rdma: true,
                shm: true,
            };
        }
        Ok(wanted)
    }
}

fn number<T: FromStr>(
    variable: &impl Fn(&str) -> Option<String>,
    name: &'static str,
) -> Result<Option<T>, EngineError> {
    let Some(value) = variable(name) else {
        return Ok(None);
    };
    match value.trim().parse() {
        Ok(number) => Ok(Some(number)),
        Err(_) => Err(refuse(name, &value, "write a whole number")),
    }
}

fn queue_pairs(variable: &impl Fn(&str) -> Option<String>) -> Result<Option<usize>, EngineError> {
    const NAME: &str = RailOptions::QUEUE_PAIRS_VARIABLE;
    let refused = |text: &str, reason: String| refuse(NAME, text, &reason);
    variable(NAME)
        .map(|text| RailOptions::queue_pairs(&text).map_err(|reason| refused(&text, reason)))
        .transpose()
}

fn switch(
    variable: &impl Fn(&str) -> Option<String>,
    name: &'static str,
) -> Result<bool, EngineError> {
    switch_or(variable, name, false)
}

fn switch_or(
    variable: &impl Fn(&str) -> Option<String>,
    name: &'static str,
    usual: bool,
) -> Result<bool, EngineError> {
    let value = variable(name).map(|value| value.to_ascii_lowercase());
    match value.as_deref() {
        None => Ok(usual),
        Some("0" | "false" | "no" | "off") => Ok(false),
        Some("1" | "true" | "yes" | "on") => Ok(true),
        Some(other) => Err(refuse(name, other, "write 0 or 1")),
    }
}

fn refuse(name: &'static str, value: &str, reason: &str) -> EngineError {
    EngineError::Setting {
        name,
        value: value.to_owned(),
        reason: reason.to_owned(),
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
        assert_eq!(
            with("MC_TRANSFER_TIMEOUT", "60").unwrap().deadline,
            Duration::from_secs(60)
        );
        assert_eq!(
            with("MC_TRANSFER_TIMEOUT", "1").unwrap().deadline,
            TRANSFER_DEADLINE_MIN
        );
        assert!(with("PERIGEE_SERVE_MOONCAKE", "1").unwrap().serve_upstream);
        assert!(with("PERIGEE_REQUIRE_RDMA", "1").unwrap().requires_rdma);
        assert!(!with("", "").unwrap().requires_rdma);
        assert!(with("", "").unwrap().shares_memory);
        assert!(!with("PERIGEE_SHARED_MEMORY", "0").unwrap().shares_memory);
        let error = with("PERIGEE_ENGINE_SHARDS", "many").unwrap_err();
        assert!(
            error.to_string().contains("PERIGEE_ENGINE_SHARDS"),
            "{error}"
        );
    }

    #[test]
    fn the_bound_on_queue_pairs_is_mooncakes_and_one_that_makes_no_sense_is_refused() {
        const NAME: &str = "MC_NUM_QP_PER_EP";
        assert_eq!(with("", "").unwrap().queue_pairs_per_rail, None);
        for (text, bound) in [("1", 1), (" 2", 2), ("32", 32)] {
            assert_eq!(with(NAME, text).unwrap().queue_pairs_per_rail, Some(bound));
        }
        for text in ["0", "33", "-1", "two", "1.5"] {
            let error = with(NAME, text).unwrap_err().to_string();
            assert!(error.contains(NAME) && error.contains(text), "{error}");
        }
    }

    #[test]
    fn an_unknown_protocol_is_refused_with_those_that_exist() {
        let error = Protocols::parse("tcpp").unwrap_err().to_string();
        assert!(error.contains("tcpp") && error.contains("rdma"), "{error}");
        let both = Protocols {
            tcp: true,
            rdma: true,
            shm: false,
        };
        assert_eq!(
            Protocols::parse("").unwrap(),
            Protocols { shm: true, ..both }
        );
        assert_eq!(Protocols::parse("tcp, rdma").unwrap(), both);
        assert!(!Protocols::parse("tcp").unwrap().rdma);
    }
}
