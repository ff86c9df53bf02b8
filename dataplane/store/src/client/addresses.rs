//! Where other clients are.

use crate::client::{Store, refused};
use perigee_metrics::RpcKind;
use perigee_schemas::limits::SEGMENTS_MAX;
use perigee_schemas::{Identity, Status};
use std::collections::BTreeMap;

impl Store {
    /// Random identity of this client, by which others may ask where its segments are.
    pub fn client_id(&self) -> Identity {
        self.master.client()
    }

    /// Addresses of the hosts on which the segments of clients are, as `BatchQueryIp` of Mooncake
    /// has them. Clients without segments have no entry.
    ///
    /// # Errors
    /// The master did not answer, or its version does not know this call.
    pub fn batch_query_ip(
        &self,
        clients: &[Identity],
    ) -> Result<BTreeMap<Identity, Vec<String>>, Status> {
        self.while_open()?;
        let mut found = BTreeMap::new();
        for clients in clients.chunks(SEGMENTS_MAX) {
            let answer =
                self.timed(RpcKind::BatchQueryIp, |master| master.query_addresses(clients));
            let answer = answer.map_err(|error| refused(&error))?;
            debug_assert_eq!(answer.len(), clients.len(), "one answer per client");
            let pairs = clients.iter().copied().zip(answer);
            found.extend(pairs.filter_map(|(client, addresses)| Some((client, addresses.ok()?))));
        }
        Ok(found)
    }
}
