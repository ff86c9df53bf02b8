//! RDMA of a client, if its protocol asks for it and there is any.
//! Invariant: rails carry a client's objects only after bytes were read over them.

use crate::environment::StoreEnvironment;
use crate::error::StoreError;
use perigee_rdma::{FirstLoad, Rdma, RdmaOptions, StartOptions};
use perigee_schemas::Identity;
use perigee_settings::{FORCE_RDMA, ForcedTransport, Protocols, REQUIRE_RDMA, SettingError};
use std::sync::Arc;

/// The rails of a client whose protocol asks for them, unless TCP is forced.
///
/// # Errors
/// A word of the protocol is not known, or RDMA is required and does not work.
pub(crate) fn start(
    (protocol, device_names): (&str, &str),
    identity: Identity,
    environment: &StoreEnvironment,
) -> Result<Option<Arc<Rdma>>, StoreError> {
    let protocols = Protocols::parse(protocol)?.with_forced(environment.forced);
    let is_forced = environment.forced == Some(ForcedTransport::Rdma);
    let asked = StartOptions {
        protocols,
        is_required: is_forced || environment.requires_rdma,
        device_names,
        auto_discovery: environment.auto_discovery,
        variable: &|name| std::env::var(name).ok(),
        fabric: environment.fabric.as_ref(),
        options: RdmaOptions {
            identity,
            name: identity.to_string(),
            shards: environment.client_shards,
            poll: environment.poll,
            queue_pairs_per_rail: environment.queue_pairs_per_rail,
            tuning: environment.rails.clone(),
            first_load: FirstLoad::Proven,
        },
    };
    perigee_rdma::start(&asked).map_err(|error| {
        let refused = match is_forced {
            true => SettingError::new(FORCE_RDMA.name, "1", format!("{error}; unset it")),
            false => {
                let reason = format!("{error}; {} is set", REQUIRE_RDMA.name);
                SettingError::new("protocol", protocol, reason)
            }
        };
        refused.into()
    })
}
