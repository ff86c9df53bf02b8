//! What an operator sets for all connections of a process, because the network demands it. Nothing
//! of it has to be the same at both ends, except the partition.

use crate::device_info::DeviceInfo;
use crate::error::VerbsError;
use crate::limits::MTU_BYTES_MAX;

/// How a process enters the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkOptions {
    /// Port of devices whose name has none; `None` takes each device's first active one.
    pub port: Option<u8>,
    /// Entry of the port's partition key table.
    pub partition_index: u16,
    /// Traffic class of what this end sends (RoCE: DSCP and ECN bits).
    pub traffic_class: u8,
    /// Service level of what this end sends, 0 to 15 (RoCE: priority).
    pub service_level: u8,
    /// Largest packet payload in bytes; connections take the least of this and both ends' own.
    pub mtu_bytes: u32,
}

impl Default for LinkOptions {
    fn default() -> Self {
        Self {
            port: None,
            partition_index: 0,
            traffic_class: 0,
            service_level: 0,
            mtu_bytes: MTU_BYTES_MAX,
        }
    }
}

impl LinkOptions {
    /// Name of a device with the port that is wanted, unless it has one already.
    pub fn place(&self, device: &str) -> String {
        match self.port {
            Some(port) if !device.contains(':') => format!("{device}:{port}"),
            _ => device.to_owned(),
        }
    }

    /// Whether a port has the partition.
    ///
    /// # Errors
    /// Its table is shorter ([`VerbsError::TooMuch`]).
    pub fn check(&self, info: &DeviceInfo) -> Result<(), VerbsError> {
        let last = info.limits.partitions.saturating_sub(1);
        if self.partition_index <= last {
            return Ok(());
        }
        Err(VerbsError::TooMuch {
            device: info.name.clone(),
            what: "Partition key index",
            asked: u64::from(self.partition_index),
            limit: u64::from(last),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_of_the_name_wins() {
        let link = LinkOptions { port: Some(2), ..LinkOptions::default() };
        assert_eq!(link.place("mlx5_0"), "mlx5_0:2");
        assert_eq!(link.place("mlx5_0:1"), "mlx5_0:1");
        assert_eq!(LinkOptions::default().place("mlx5_0"), "mlx5_0");
    }
}
