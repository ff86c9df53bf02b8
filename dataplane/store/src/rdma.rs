//! RDMA of a client, if it is wanted and there is any. Invariant: a host without usable devices is no error unless RDMA is
//! required; its clients and nodes work over TCP and say so once.

use crate::environment::StoreEnvironment;
use crate::error::StoreError;
use perigee_rails::host_devices;
use perigee_schemas::Identity;
use perigee_settings::{Protocols, REQUIRE_RDMA};
use perigee_transfer::{GivenFabric, Rails, RailsOptions};
use perigee_verbs::Fabric;
use perigee_verbs::libibverbs::HostDevices;
use std::sync::Arc;

/// The rails of a client whose protocol asks for them, unless TCP is forced.
///
/// # Errors
/// A word of the protocol is not known, or RDMA is required and does not work.
pub(crate) fn start(
    (protocol, device_name): (&str, &str),
    identity: Identity,
    environment: &StoreEnvironment,
) -> Result<Option<Arc<Rails>>, StoreError> {
    let wanted = Protocols::parse(protocol)?;
    if !wanted.rdma || environment.force_tcp {
        return Ok(None);
    }
    match open(device_name, identity, environment) {
        Ok(rails) => return Ok(Some(rails)),
        Err(reason) if environment.requires_rdma => {
            return Err(StoreError::Config {
                name: "protocol",
                value: protocol.to_owned(),
                reason: format!(
                    "{reason}, and {} is set; load the device's driver, correct the device names, or use tcp",
                    REQUIRE_RDMA.name
                ),
            });
        }
        Err(reason) if wanted.tcp => {
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

fn open(
    device_name: &str,
    identity: Identity,
    environment: &StoreEnvironment,
) -> Result<Arc<Rails>, String> {
    let (fabric, devices): (Arc<dyn Fabric>, _) = match &environment.fabric {
        Some(GivenFabric(fabric)) => (fabric.clone(), Vec::new()),
        None => {
            let variable = |name: &str| std::env::var(name).ok();
            let fabric = HostDevices::load().map_err(|error| error.to_string())?;
            let devices =
                host_devices(device_name, &variable).map_err(|error| error.to_string())?;
            (Arc::new(fabric), devices)
        }
    };
    let options = RailsOptions {
        identity,
        devices,
        shards: environment.client_shards,
        poll: environment.poll,
        queue_pairs_per_rail: environment.queue_pairs_per_rail,
    };
    Rails::start(fabric.as_ref(), &options).map_err(|error| error.to_string())
}
