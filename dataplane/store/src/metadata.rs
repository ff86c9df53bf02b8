//! This client's records in a metadata service, in the documents that transfer engines read.
//! Invariant: the records vanish with the client where the service can, and are taken back when it leaves.

use crate::error::StoreError;
use perigee_discovery::{
    BufferEntry, Directory, DiscoveryError, RpcMeta, SegmentDocument, Settings,
};
use perigee_rpc::SegmentOffer;

/// Version of Mooncake's data protocol that documents name.
const TCP_PROTO_VERSION: u32 = 2;

/// This client's records; none with `P2PHANDSHAKE`.
#[derive(Debug)]
pub(crate) struct Registration {
    directory: Directory,
}

impl Registration {
    /// Records in the service that `metadata_server` names: `http://`, `https://`, `etcd://`, `redis://`, or a bare
    /// `host:port` list, which is etcd's.
    pub(crate) fn new(metadata_server: &str, settings: &Settings) -> Result<Self, StoreError> {
        let server = match metadata_server.trim() {
            "" => "P2PHANDSHAKE",
            given => given,
        };
        let opened = Directory::open(server, settings.clone());
        let directory = opened.map_err(|error| StoreError::Config {
            name: "metadata_server",
            value: metadata_server.to_owned(),
            reason: error.to_string(),
        })?;
        Ok(Self { directory })
    }

    /// Publishes what this client serves.
    pub(crate) fn publish(
        &self,
        name: &str,
        protocol: &str,
        offers: &[SegmentOffer],
        endpoint: Option<(String, u16)>,
    ) -> Result<(), StoreError> {
        let (host, port) = endpoint.unwrap_or_default();
        let buffer = |offer: &SegmentOffer| BufferEntry {
            name: offer.name.clone(),
            addr: offer.base,
            length: offer.bytes,
            ..BufferEntry::default()
        };
        let document = SegmentDocument {
            name: name.to_owned(),
            protocol: protocol.to_owned(),
            tcp_data_host: host.clone(),
            tcp_data_port: port,
            tcp_proto_version: TCP_PROTO_VERSION,
            buffers: offers.iter().map(buffer).collect(),
            ..SegmentDocument::default()
        };
        let recorded = self.directory.record(&RpcMeta::new(&host, port), &document);
        recorded.map_err(|error| match error {
            DiscoveryError::Backend { server, reason } => StoreError::Metadata {
                url: server,
                reason,
            },
            other => StoreError::System(other.to_string()),
        })
    }

    /// Takes the records back; a service that is gone has none.
    pub(crate) fn withdraw(&self) {
        self.directory.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_service_that_engines_can_use_is_taken_and_others_are_refused_by_name() {
        for server in [
            "",
            "P2PHANDSHAKE",
            "http://127.0.0.1:8080/metadata",
            "etcd://a:2379,b:2379",
            "a:2379",
            "redis://a:6379",
        ] {
            assert!(
                Registration::new(server, &Settings::default()).is_ok(),
                "{server}"
            );
        }
        let refused = Registration::new("zookeeper://a:1", &Settings::default()).unwrap_err();
        assert!(refused.to_string().contains("etcd://"), "{refused}");
    }
}
