//! Starting RDMA if it is wanted and there is any. Invariant: a host without usable devices is no
//! error unless RDMA is required; its stores, nodes and engines work over TCP and say so once.

use crate::rdma::{Rdma, RdmaOptions};
use perigee_rails::host_devices;
use perigee_settings::{AUTO_DISCOVERY, Protocols, REQUIRE_RDMA};
use perigee_verbs::Fabric;
use perigee_verbs::libibverbs::HostDevices;
use std::sync::{Arc, Once};

/// A fabric that stands in for the host's devices, for tests and simulation.
#[derive(Clone)]
pub struct GivenFabric(pub Arc<dyn Fabric>);

impl std::fmt::Debug for GivenFabric {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("GivenFabric")
    }
}

impl PartialEq for GivenFabric {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for GivenFabric {}

/// RDMA is required and does not work.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "RDMA cannot be used: {0}; load the device's driver, correct the device names, or use protocol tcp"
)]
pub struct Unavailable(pub String);

/// What a process asks for.
pub struct StartOptions<'a> {
    /// Words of its protocol.
    pub protocols: Protocols,
    /// Refuse to go on without RDMA if the protocol names it.
    pub is_required: bool,
    /// Names of devices, a map from rank to device, or the path of a file with such a map; empty
    /// for all.
    pub device_names: &'a str,
    /// True finds all devices whatever `device_names` says; false uses none that is not named.
    pub auto_discovery: Option<bool>,
    /// Reads the variables that choose devices.
    pub variable: &'a dyn Fn(&str) -> Option<String>,
    /// In place of the host's devices.
    pub fabric: Option<&'a GivenFabric>,
    /// How the rails work.
    pub options: RdmaOptions,
}

/// Starts RDMA if the protocol names it; `None` without usable devices.
///
/// # Errors
/// It does not work and is required.
pub fn start(asked: &StartOptions<'_>) -> Result<Option<Arc<Rdma>>, Unavailable> {
    if !asked.protocols.rdma {
        if !asked.device_names.trim().is_empty() {
            warn_of_unused(asked.device_names);
        }
        return Ok(None);
    }
    match open(asked) {
        Ok(rdma) => return Ok(Some(rdma)),
        Err(reason) if asked.is_required => return Err(Unavailable(reason)),
        Err(reason) if asked.protocols.tcp => {
            tracing::info!(reason, "RDMA is off; transfers go over TCP");
        }
        Err(reason) => tracing::warn!(
            reason,
            "RDMA cannot be used, TCP is; load the device's driver, correct the device names, or choose protocol tcp \
             ({}=1 makes this an error)",
            REQUIRE_RDMA.name
        ),
    }
    Ok(None)
}

/// A process says once that its devices are not used.
fn warn_of_unused(device_names: &str) {
    static SAID: Once = Once::new();
    SAID.call_once(|| {
        tracing::warn!(
            device_names,
            "RDMA devices are named and not used: the protocol is tcp, or MC_FORCE_TCP is set; protocol rdma uses them"
        );
    });
}

/// The names that count.
///
/// # Errors
/// Devices have to be named, and none is.
fn names<'a>(asked: &StartOptions<'a>) -> Result<&'a str, String> {
    match asked.auto_discovery {
        Some(true) => Ok(""),
        Some(false) if asked.device_names.trim().is_empty() => Err(format!(
            "{} is 0 and no device is named; name devices, or leave it out to use all",
            AUTO_DISCOVERY.name
        )),
        _ => Ok(asked.device_names),
    }
}

fn open(asked: &StartOptions<'_>) -> Result<Arc<Rdma>, String> {
    let names = names(asked)?;
    let (fabric, devices): (Arc<dyn Fabric>, _) = match asked.fabric {
        Some(GivenFabric(fabric)) => (fabric.clone(), Vec::new()),
        None => {
            let fabric = HostDevices::load().map_err(|error| error.to_string())?;
            let devices = host_devices(names, asked.variable);
            (Arc::new(fabric), devices.map_err(|error| error.to_string())?)
        }
    };
    Rdma::start(fabric.as_ref(), &devices, &asked.options).map_err(|error| error.to_string())
}
