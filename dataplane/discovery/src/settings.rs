//! The environment variables of discovery, in one place; Mooncake's names keep their meaning.
//! Invariant: a value that cannot be understood is an error that names it, never a silent default.

use crate::error::DiscoveryError;
use crate::limits::{
    BACKLOG_DEFAULT, CALL_DEADLINE, CONNECT_DEADLINE, CONNECT_DEADLINE_MAX, ENTRY_LIFE_DEFAULT,
    ENTRY_LIFE_MAX, ENTRY_LIFE_MIN, FRAME_BYTES_DEFAULT, FRAME_BYTES_FLOOR, FRAME_BYTES_MAX,
    HANDSHAKE_PORT_DEFAULT, PORTS_DEFAULT,
};
use perigee_settings::{SettingError, TCP_BIND_ADDRESS, Variables};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;
use std::time::Duration;

/// A text that no log may show.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a text.
    pub fn new(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// The text itself.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(if self.0.is_empty() { "none" } else { "***" })
    }
}

/// Settings of discovery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiscoverySettings {
    /// Longest wait for a peer to accept a connection (`MC_HANDSHAKE_CONNECT_TIMEOUT`, seconds).
    pub connect_deadline: Duration,
    /// Longest handshake frame in bytes (`MC_HANDSHAKE_MAX_LENGTH`).
    pub frame_bytes_max: usize,
    /// Connections the kernel queues (`MC_HANDSHAKE_LISTEN_BACKLOG`).
    pub backlog: u32,
    /// Handshake port of peers named without one (`MC_HANDSHAKE_PORT`).
    pub handshake_port: u16,
    /// Ports to choose from (`MC_MIN_RPC_PORT`, `MC_MAX_RPC_PORT`).
    pub ports: RangeInclusive<u16>,
    /// Listen on IPv6 (`MC_USE_IPV6`).
    pub use_ipv6: bool,
    /// Address to listen on (`MC_TCP_BIND_ADDRESS`); otherwise all of them.
    pub bind_address: Option<IpAddr>,
    /// Keep documents of peers (off with `MC_DISABLE_METACACHE`).
    pub cache: bool,
    /// Ask again for documents older than this (`MC_TE_METADATA_REFRESH_INTERVAL_SECONDS`).
    pub refresh: Option<Duration>,
    /// Cluster in the keys (`MC_METADATA_CLUSTER_ID`); empty = none.
    pub cluster: String,
    /// Bearer token for an HTTP metadata server (`MC_METADATA_HTTP_TOKEN`).
    pub http_token: Secret,
    /// Whose certificates of metadata servers are trusted, instead of the system's
    /// (`PERIGEE_METADATA_CA_FILE`, PEM).
    pub ca_file: Option<String>,
    /// Certificate to show to metadata servers that want one (`PERIGEE_METADATA_CERT_FILE`, PEM).
    pub cert_file: Option<String>,
    /// Its key (`PERIGEE_METADATA_KEY_FILE`, PEM).
    pub key_file: Option<String>,
    /// etcd user (`PERIGEE_ETCD_USERNAME`); empty = none.
    pub etcd_username: String,
    /// etcd password (`PERIGEE_ETCD_PASSWORD`).
    pub etcd_password: Secret,
    /// Redis user (`MC_REDIS_USERNAME`); one in the URL wins.
    pub redis_username: String,
    /// Redis password (`MC_REDIS_PASSWORD`); one in the URL wins.
    pub redis_password: Secret,
    /// Redis database (`MC_REDIS_DB_INDEX`); one in the URL wins.
    pub redis_database: u8,
    /// Longest a call may wait for a metadata server, with all its requests
    /// (`PERIGEE_METADATA_TIMEOUT_MS`).
    pub call_deadline: Duration,
    /// How long entries outlive a process that died (`PERIGEE_METADATA_TTL_SECONDS`).
    pub entry_life: Duration,
}

impl Default for DiscoverySettings {
    fn default() -> Self {
        Self {
            connect_deadline: CONNECT_DEADLINE,
            frame_bytes_max: FRAME_BYTES_DEFAULT,
            backlog: BACKLOG_DEFAULT,
            handshake_port: HANDSHAKE_PORT_DEFAULT,
            ports: PORTS_DEFAULT.0..=PORTS_DEFAULT.1,
            use_ipv6: false,
            bind_address: None,
            cache: true,
            refresh: None,
            cluster: String::new(),
            http_token: Secret::default(),
            ca_file: None,
            cert_file: None,
            key_file: None,
            etcd_username: String::new(),
            etcd_password: Secret::default(),
            redis_username: String::new(),
            redis_password: Secret::default(),
            redis_database: 0,
            call_deadline: CALL_DEADLINE,
            entry_life: ENTRY_LIFE_DEFAULT,
        }
    }
}

impl DiscoverySettings {
    /// Reads the process's variables.
    ///
    /// # Errors
    /// A variable has a value that cannot be understood; the error names it.
    pub fn from_environment() -> Result<Self, DiscoveryError> {
        Self::from_variables(Variables::of_process)
    }

    /// Reads variables from anywhere.
    ///
    /// # Errors
    /// As [`DiscoverySettings::from_environment`].
    pub fn from_variables(
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, DiscoveryError> {
        let read = Variables::new(&variable);
        let usual = Self::default();
        let text = |name| read.text(name).unwrap_or_default();
        Ok(Self {
            connect_deadline: seconds(
                &read,
                "MC_HANDSHAKE_CONNECT_TIMEOUT",
                usual.connect_deadline,
                Duration::from_secs(1)..=CONNECT_DEADLINE_MAX,
            )?,
            frame_bytes_max: read
                .within("MC_HANDSHAKE_MAX_LENGTH", FRAME_BYTES_FLOOR..=FRAME_BYTES_MAX)?
                .unwrap_or(usual.frame_bytes_max),
            backlog: read
                .within("MC_HANDSHAKE_LISTEN_BACKLOG", 1..=65_535)?
                .unwrap_or(usual.backlog),
            handshake_port: read
                .within("MC_HANDSHAKE_PORT", 1..=u16::MAX)?
                .unwrap_or(usual.handshake_port),
            ports: ports(&read)?,
            use_ipv6: read.switch("MC_USE_IPV6", false)?,
            bind_address: read.parsed(TCP_BIND_ADDRESS.name, TCP_BIND_ADDRESS.allowed)?,
            cache: !read.switch("MC_DISABLE_METACACHE", false)?,
            refresh: read
                .parsed("MC_TE_METADATA_REFRESH_INTERVAL_SECONDS", "seconds, or 0 for never")?
                .filter(|seconds| *seconds > 0)
                .map(Duration::from_secs),
            cluster: text("MC_METADATA_CLUSTER_ID"),
            http_token: Secret(text("MC_METADATA_HTTP_TOKEN")),
            ca_file: read.text("PERIGEE_METADATA_CA_FILE"),
            cert_file: read.text("PERIGEE_METADATA_CERT_FILE"),
            key_file: read.text("PERIGEE_METADATA_KEY_FILE"),
            etcd_username: text("PERIGEE_ETCD_USERNAME"),
            etcd_password: Secret(text("PERIGEE_ETCD_PASSWORD")),
            redis_username: text("MC_REDIS_USERNAME"),
            redis_password: Secret(text("MC_REDIS_PASSWORD")),
            redis_database: read.within("MC_REDIS_DB_INDEX", 0..=u8::MAX)?.unwrap_or_default(),
            call_deadline: read
                .within("PERIGEE_METADATA_TIMEOUT_MS", 10..=600_000)?
                .map_or(usual.call_deadline, Duration::from_millis),
            entry_life: seconds(
                &read,
                "PERIGEE_METADATA_TTL_SECONDS",
                usual.entry_life,
                ENTRY_LIFE_MIN..=ENTRY_LIFE_MAX,
            )?,
        })
    }

    /// Address that servers listen on.
    pub fn listen_address(&self) -> IpAddr {
        let all = if self.use_ipv6 {
            IpAddr::V6(Ipv6Addr::UNSPECIFIED)
        } else {
            IpAddr::V4(Ipv4Addr::UNSPECIFIED)
        };
        self.bind_address.unwrap_or(all)
    }
}

fn seconds(
    variables: &Variables<'_>,
    name: &'static str,
    usual: Duration,
    range: RangeInclusive<Duration>,
) -> Result<Duration, SettingError> {
    let range = range.start().as_secs()..=range.end().as_secs();
    let seconds = variables.within(name, range)?;
    Ok(seconds.map_or(usual, Duration::from_secs))
}

/// The range of ports; Mooncake's older, misspelled names count when the others are not set.
fn ports(variables: &Variables<'_>) -> Result<RangeInclusive<u16>, SettingError> {
    let port = |name, usual| -> Result<u16, SettingError> {
        Ok(variables.within(name, 1..=u16::MAX)?.unwrap_or(usual))
    };
    let old_first = port("MC_MIN_PRC_PORT", PORTS_DEFAULT.0)?;
    let old_last = port("MC_MAX_PRC_PORT", PORTS_DEFAULT.1)?;
    let first = port("MC_MIN_RPC_PORT", old_first)?;
    let last = port("MC_MAX_RPC_PORT", old_last)?;
    if first > last {
        let allowed = format!("write a port that is not above MC_MAX_RPC_PORT, {last}");
        return Err(SettingError::new("MC_MIN_RPC_PORT", first.to_string(), allowed));
    }
    Ok(first..=last)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(pairs: &[(&str, &str)]) -> Result<DiscoverySettings, DiscoveryError> {
        DiscoverySettings::from_variables(|asked| {
            let found = pairs.iter().find(|(name, _)| *name == asked);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn without_variables_everything_is_as_usual() {
        assert_eq!(with(&[]).unwrap(), DiscoverySettings::default());
    }

    #[test]
    fn mooncakes_variables_are_understood() {
        let settings = with(&[
            ("MC_HANDSHAKE_CONNECT_TIMEOUT", "9"),
            ("MC_HANDSHAKE_MAX_LENGTH", "134217728"),
            ("MC_MIN_RPC_PORT", "20000"),
            ("MC_MAX_PRC_PORT", "20010"),
            ("MC_USE_IPV6", "1"),
            ("MC_DISABLE_METACACHE", "true"),
            ("MC_TE_METADATA_REFRESH_INTERVAL_SECONDS", "0"),
            ("MC_REDIS_DB_INDEX", "3"),
        ])
        .unwrap();
        assert_eq!(settings.connect_deadline, Duration::from_secs(9));
        assert_eq!(settings.frame_bytes_max, FRAME_BYTES_MAX);
        assert_eq!(settings.ports, 20_000..=20_010);
        assert_eq!(settings.listen_address().to_string(), "::");
        assert!(!settings.cache);
        assert_eq!(settings.refresh, None);
        assert_eq!(settings.redis_database, 3);
    }

    #[test]
    fn impossible_values_are_named() {
        for (name, value) in [
            ("MC_HANDSHAKE_MAX_LENGTH", "134217729"),
            ("MC_HANDSHAKE_CONNECT_TIMEOUT", "0"),
            ("MC_MIN_RPC_PORT", "17001"),
            ("MC_TCP_BIND_ADDRESS", "localhost"),
            ("MC_REDIS_DB_INDEX", "-1"),
            ("MC_USE_IPV6", "perhaps"),
            ("PERIGEE_METADATA_TTL_SECONDS", "1"),
        ] {
            let text = with(&[(name, value)]).unwrap_err().to_string();
            assert!(text.contains(name) && text.contains(value), "{text}");
        }
    }

    #[test]
    fn secrets_are_not_shown() {
        let settings = with(&[("MC_REDIS_PASSWORD", "hush")]).unwrap();
        assert!(!format!("{settings:?}").contains("hush"));
        assert_eq!(settings.redis_password.reveal(), "hush");
    }
}
