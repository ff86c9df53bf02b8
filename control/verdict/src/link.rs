//! Links between NICs of hosts, and the switches they hang on.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// A NIC of a host.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct NicOfHost {
    /// Name of the host.
    pub host: String,
    /// Name of the NIC there.
    pub nic: String,
}

impl NicOfHost {
    /// Of two names.
    #[must_use]
    pub fn new(host: impl Into<String>, nic: impl Into<String>) -> Self {
        Self { host: host.into(), nic: nic.into() }
    }
}

impl fmt::Display for NicOfHost {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.host, self.nic)
    }
}

/// A link that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JudgedLink {
    /// One end.
    pub from: NicOfHost,
    /// The other.
    pub to: NicOfHost,
    /// Whether it is slow, loses or does not answer.
    pub is_sick: bool,
}

/// Names of switches by the NICs that hang on them; empty where that is not known.
pub type Switches = BTreeMap<NicOfHost, String>;
