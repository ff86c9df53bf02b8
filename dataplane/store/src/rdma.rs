//! RDMA of a client, if it is wanted and there is any. Invariant: a host without usable devices is no error; its clients
//! and nodes work over TCP and say so once.

use crate::environment::StoreEnvironment;
use perigee_rails::host_devices;
use perigee_schemas::Identity;
use perigee_transfer::{GivenFabric, Rails, RailsOptions};
use perigee_verbs::Fabric;
use perigee_verbs::libibverbs::HostDevices;
use std::sync::Arc;

const TCP: &str = "tcp";
const RDMA: &str = "rdma";

/// The rails of a client whose protocol asks for them.
pub(crate) fn start(
    (protocol, device_name): (&str, &str),
    identity: Identity,
    environment: &StoreEnvironment,
) -> Option<Arc<Rails>> {
    let mut wanted = false;
    for name in protocol.split([',', '+']).map(str::trim) {
        if name.eq_ignore_ascii_case(RDMA) {
            wanted = true;
        } else if !name.is_empty() && !name.eq_ignore_ascii_case(TCP) {
            tracing::warn!(
                protocol = name,
                "Protocol is not built in, TCP and shared memory are used; write tcp or rdma"
            );
        }
    }
    if !wanted {
        return None;
    }
    match open(device_name, identity, environment) {
        Ok(rails) => Some(rails),
        Err(reason) => {
            tracing::warn!(
                reason,
                "RDMA cannot be used, TCP is; load the device's driver, correct the device names, or choose protocol tcp"
            );
            None
        }
    }
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
