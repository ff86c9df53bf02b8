//! Settings of stores and engines about moving bytes. Invariant: both read it here, so that a
//! variable never means something else to one of them.

use crate::error::SettingError;
use crate::table::{
    AUTO_DISCOVERY, FORCE_RDMA, FORCE_TCP, POLL_US, QUEUE_PAIRS, REQUIRE_RDMA, SHARED_MEMORY,
    TCP_CONGESTION, TRANSFER_TIMEOUT,
};
use crate::variables::Variables;
use perigee_shard::{Congestion, POLL_DEFAULT};
use std::time::Duration;

/// Least deadline of a transfer that can be set, as in Mooncake.
pub const TRANSFER_DEADLINE_MIN: Duration = Duration::from_secs(5);
/// Most queue pairs between the same two NICs.
pub const QUEUE_PAIRS_MAX: usize = 32;
/// Longest polling time that can be set, in microseconds.
const POLL_US_MAX: u64 = 1_000_000;

/// Settings that stores and engines share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataPath {
    /// Longest a transfer may take, if it is set.
    pub transfer_deadline: Option<Duration>,
    /// What is used whatever the protocol says.
    pub forced: Option<ForcedTransport>,
    /// RDMA that does not work is an error if the protocol names it.
    pub requires_rdma: bool,
    /// Whether RDMA devices are found, whatever names were given, or have to be named.
    pub auto_discovery: Option<bool>,
    /// Memory is shared with processes of this host.
    pub shares_memory: bool,
    /// Congestion control of data connections.
    pub congestion: Congestion,
    /// How long a shard polls after its last completion.
    pub poll: Duration,
    /// Most queue pairs of a shard between the same two NICs, if it is set.
    pub queue_pairs_per_rail: Option<usize>,
}

/// A way to peers that is used whatever the protocol says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForcedTransport {
    /// Sockets (`MC_FORCE_TCP`).
    Tcp,
    /// Verbs; a host without a device that works is an error (`MC_FORCE_HCA`).
    Rdma,
}

impl DataPath {
    /// Reads the variables.
    ///
    /// # Errors
    /// A variable has a value that cannot be used.
    pub fn read(variables: &Variables<'_>) -> Result<Self, SettingError> {
        Ok(Self {
            transfer_deadline: transfer_deadline(variables)?,
            forced: forced(variables)?,
            auto_discovery: variables.optional_switch(AUTO_DISCOVERY.name)?,
            requires_rdma: variables.switch(REQUIRE_RDMA.name, false)?,
            shares_memory: variables.switch(SHARED_MEMORY.name, true)?,
            congestion: congestion(&variables.text(TCP_CONGESTION.name).unwrap_or_default()),
            poll: variables
                .within(POLL_US.name, 0..=POLL_US_MAX)?
                .map_or(POLL_DEFAULT, Duration::from_micros),
            queue_pairs_per_rail: variables.within(QUEUE_PAIRS.name, 1..=QUEUE_PAIRS_MAX)?,
        })
    }
}

/// The congestion control that a text names: `auto` or nothing, `host`, or one of the kernel's.
pub fn congestion(text: &str) -> Congestion {
    match text {
        "auto" | "" => Congestion::Automatic,
        "host" => Congestion::Host,
        name => Congestion::Named(name.into()),
    }
}

/// Refuses a congestion control that the kernel does not have, or not for this process; `setting`
/// has named it.
///
/// # Errors
/// The kernel refuses it.
pub fn check_congestion(setting: &'static str, named: &Congestion) -> Result<(), SettingError> {
    let Congestion::Named(name) = named else {
        return Ok(());
    };
    named.check().map_err(|error| {
        let reason = format!(
            "the kernel refuses it ({error}); write auto, host, or a name of \
             /proc/sys/net/ipv4/tcp_allowed_congestion_control"
        );
        SettingError::new(setting, &**name, reason)
    })
}

fn forced(variables: &Variables<'_>) -> Result<Option<ForcedTransport>, SettingError> {
    let tcp = variables.switch(FORCE_TCP.name, false)?;
    let rdma = variables.switch(FORCE_RDMA.name, false)?;
    match (tcp, rdma) {
        (true, true) => {
            let allowed = format!("{} says the opposite; write one of them", FORCE_TCP.name);
            Err(SettingError::new(FORCE_RDMA.name, "1", allowed))
        }
        (true, false) => Ok(Some(ForcedTransport::Tcp)),
        (false, true) => Ok(Some(ForcedTransport::Rdma)),
        (false, false) => Ok(None),
    }
}

fn transfer_deadline(variables: &Variables<'_>) -> Result<Option<Duration>, SettingError> {
    let allowed = TRANSFER_TIMEOUT.allowed;
    let seconds = variables.parsed(TRANSFER_TIMEOUT.name, allowed)?;
    let Some(given) = seconds.map(Duration::from_secs) else {
        return Ok(None);
    };
    if given < TRANSFER_DEADLINE_MIN {
        tracing::warn!(
            name = TRANSFER_TIMEOUT.name,
            value = given.as_secs(),
            used = TRANSFER_DEADLINE_MIN.as_secs(),
            "The deadline is too short for a busy host; write {allowed}"
        );
    }
    Ok(Some(given.max(TRANSFER_DEADLINE_MIN)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(name: &str, value: &str) -> Result<DataPath, SettingError> {
        let source = |asked: &str| (asked == name).then(|| value.to_owned());
        DataPath::read(&Variables::new(&source))
    }

    #[test]
    fn without_variables_memory_is_shared_and_tcp_is_not_forced() {
        let path = with("", "").unwrap();
        assert!(path.shares_memory && !path.requires_rdma);
        assert_eq!((path.forced, path.auto_discovery), (None, None));
        assert_eq!((path.transfer_deadline, path.queue_pairs_per_rail), (None, None));
        assert_eq!((path.poll, path.congestion), (POLL_DEFAULT, Congestion::Automatic));
    }

    #[test]
    fn each_variable_is_heard() {
        let seconds = |text| with("MC_TRANSFER_TIMEOUT", text).unwrap().transfer_deadline;
        assert_eq!(seconds("60"), Some(Duration::from_secs(60)));
        assert_eq!(seconds("1"), Some(TRANSFER_DEADLINE_MIN));
        assert_eq!(with("MC_FORCE_TCP", "1").unwrap().forced, Some(ForcedTransport::Tcp));
        assert_eq!(with("MC_FORCE_TCP", "false").unwrap().forced, None);
        assert_eq!(with("MC_FORCE_HCA", "true").unwrap().forced, Some(ForcedTransport::Rdma));
        assert_eq!(with("MC_MS_AUTO_DISC", "0").unwrap().auto_discovery, Some(false));
        assert!(with("PERIGEE_REQUIRE_RDMA", "1").unwrap().requires_rdma);
        assert!(!with("PERIGEE_SHARED_MEMORY", "0").unwrap().shares_memory);
        assert_eq!(with("PERIGEE_POLL_US", "7").unwrap().poll, Duration::from_micros(7));
        let named = with("PERIGEE_TCP_CONGESTION", "bbr").unwrap().congestion;
        assert_eq!(named, Congestion::Named("bbr".into()));
        assert_eq!(with("MC_NUM_QP_PER_EP", " 2").unwrap().queue_pairs_per_rail, Some(2));
    }

    #[test]
    fn a_congestion_control_that_the_kernel_does_not_have_is_refused_by_name() {
        let check = |text| check_congestion("PERIGEE_TCP_CONGESTION", &congestion(text));
        let error = check("nope").unwrap_err().to_string();
        assert!(error.contains("PERIGEE_TCP_CONGESTION \"nope\""), "{error}");
        for usable in ["", "auto", "host", "reno"] {
            assert_eq!(check(usable), Ok(()), "{usable}");
        }
    }

    #[test]
    fn both_transports_cannot_be_forced() {
        let source = |name: &str| name.starts_with("MC_FORCE_").then(|| "1".to_owned());
        let error = DataPath::read(&Variables::new(&source)).unwrap_err().to_string();
        assert!(error.contains("MC_FORCE_HCA") && error.contains("MC_FORCE_TCP"), "{error}");
    }

    #[test]
    fn impossible_values_are_refused_by_name() {
        for (name, value) in [
            ("MC_TRANSFER_TIMEOUT", "soon"),
            ("MC_FORCE_TCP", "tcp"),
            ("MC_FORCE_HCA", "2"),
            ("MC_MS_AUTO_DISC", "all"),
            ("PERIGEE_REQUIRE_RDMA", "maybe"),
            ("PERIGEE_SHARED_MEMORY", "2"),
            ("PERIGEE_POLL_US", "-1"),
            ("MC_NUM_QP_PER_EP", "33"),
        ] {
            let error = with(name, value).unwrap_err().to_string();
            assert!(error.contains(name) && error.contains(value), "{error}");
        }
    }
}
