//! Ports of clients: for the data port, and for the names of clients that give none.
//! Invariant: two clients of one host never have the same port of a range, however their sockets
//! are shared between shards.

use crate::environment::StoreEnvironment;
use crate::error::StoreError;
use crate::limits::CLIENT_PORTS;
use crate::port_range::{PortClaim, PortRange};

/// The ports of one client.
#[derive(Debug, Default)]
pub(crate) struct PortClaims {
    name: Option<PortClaim>,
    data: Option<PortClaim>,
}

impl PortClaims {
    /// Takes ports as the settings say: one of the range for name and data port, else the data port
    /// that is wished for, and for a name without a port any that is free.
    pub(crate) fn take(environment: &StoreEnvironment, has_port: bool) -> Result<Self, StoreError> {
        if let Some(range) = environment.ports {
            return Ok(Self { name: None, data: Some(range.claim()?) });
        }
        let wished = environment.data_port.map(|port| (port, PortClaim::of(port)));
        if let Some((port, None)) = wished {
            tracing::warn!(
                port,
                "Another program has this port; data goes over one that the system chooses"
            );
        }
        let of_name = PortRange { first: *CLIENT_PORTS.start(), last: *CLIENT_PORTS.end() };
        Ok(Self {
            name: if has_port { None } else { of_name.try_claim()? },
            data: wished.and_then(|(_, claim)| claim),
        })
    }

    /// The port of a name that has none of its own.
    pub(crate) fn name_port(&self) -> Option<u16> {
        self.name.as_ref().or(self.data.as_ref()).map(PortClaim::port)
    }

    /// The data port; 0 if the system chooses.
    pub(crate) fn data_port(&self) -> u16 {
        self.data.as_ref().map_or(0, PortClaim::port)
    }
}
