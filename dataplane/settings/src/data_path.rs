//! Settings of stores and engines about moving bytes. Invariant: both read it here, so that a
//! variable never means something else to one of them.

use crate::error::SettingError;
use crate::table::{
    FORCE_TCP, POLL_US, QUEUE_PAIRS, REQUIRE_RDMA, SHARED_MEMORY, TCP_CONGESTION, TRANSFER_TIMEOUT,
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
    /// TCP is used whatever the protocol says.
    pub force_tcp: bool,
    /// RDMA that does not work is an error if the protocol names it.
    pub requires_rdma: bool,
    /// Memory is shared with processes of this host.
    pub shares_memory: bool,
    /// Congestion control of data connections.
    pub congestion: Congestion,
    /// How long a shard polls after its last completion.
    pub poll: Duration,
    /// Most queue pairs of a shard between the same two NICs, if it is set.
    pub queue_pairs_per_rail: Option<usize>,
}

impl DataPath {
    /// Reads the variables.
    ///
    /// # Errors
    /// A variable has a value that cannot be used.
    pub fn read(variables: &Variables<'_>) -> Result<Self, SettingError> {
        Ok(Self {
            transfer_deadline: transfer_deadline(variables)?,
            force_tcp: variables.text(FORCE_TCP.name).is_some_and(|value| value != "0"),
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
        assert!(path.shares_memory && !path.force_tcp && !path.requires_rdma);
        assert_eq!((path.transfer_deadline, path.queue_pairs_per_rail), (None, None));
        assert_eq!((path.poll, path.congestion), (POLL_DEFAULT, Congestion::Automatic));
    }

    #[test]
    fn each_variable_is_heard() {
        let seconds = |text| with("MC_TRANSFER_TIMEOUT", text).unwrap().transfer_deadline;
        assert_eq!(seconds("60"), Some(Duration::from_secs(60)));
        assert_eq!(seconds("1"), Some(TRANSFER_DEADLINE_MIN));
        assert!(with("MC_FORCE_TCP", "1").unwrap().force_tcp);
        assert!(!with("MC_FORCE_TCP", "0").unwrap().force_tcp);
        assert!(with("PERIGEE_REQUIRE_RDMA", "1").unwrap().requires_rdma);
        assert!(!with("PERIGEE_SHARED_MEMORY", "0").unwrap().shares_memory);
        assert_eq!(with("PERIGEE_POLL_US", "7").unwrap().poll, Duration::from_micros(7));
        let named = with("PERIGEE_TCP_CONGESTION", "bbr").unwrap().congestion;
        assert_eq!(named, Congestion::Named("bbr".into()));
        assert_eq!(with("MC_NUM_QP_PER_EP", " 2").unwrap().queue_pairs_per_rail, Some(2));
    }

    #[test]
    fn impossible_values_are_refused_by_name() {
        for (name, value) in [
            ("MC_TRANSFER_TIMEOUT", "soon"),
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
