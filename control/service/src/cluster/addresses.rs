//! Where clients are, by what the registry on the first shard knows.

use super::control_shard::ControlShard;
use perigee_master::Registry;
use perigee_schemas::Identity;
use perigee_shard::Environment;

impl<E: Environment> ControlShard<E> {
    /// Addresses of the segments of each client, `None` for one without segments. `None` for all
    /// while the master ends.
    pub(crate) async fn addresses(
        &self,
        clients: Vec<Identity>,
    ) -> Option<Vec<Option<Vec<String>>>> {
        let ask = move |registry: &mut Registry, _| {
            clients.iter().map(|client| registry.addresses_of(client.0)).collect()
        };
        self.change_registry(ask).await
    }
}
