//! This client's records in a metadata service, in the documents that transfer engines read.
//! Invariant: the records vanish with the client where the service can, and are taken back when it
//! leaves.

use crate::donation::Donation;
use crate::error::StoreError;
use perigee_discovery::{
    BufferEntry, Directory, DiscoveryError, DiscoverySettings, RpcMeta, SegmentDocument,
};
use perigee_rpc::SegmentOffer;
use perigee_settings::SettingError;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Version of Mooncake's data protocol that documents name.
const TCP_PROTO_VERSION: u32 = 2;

/// This client's records; none with `P2PHANDSHAKE`.
#[derive(Debug)]
pub(crate) struct ClientRecords {
    directory: Directory,
    renewal: Mutex<RecordRenewal>,
}

/// Whether records are being changed, and whether they are behind again.
#[derive(Debug, Default)]
struct RecordRenewal {
    is_running: bool,
    is_wanted: bool,
}

impl ClientRecords {
    /// Records in the service that `metadata_server` names: `http://`, `https://`, `etcd://`,
    /// `redis://`, or a bare `host:port` list, which is etcd's.
    pub(crate) fn new(
        metadata_server: &str,
        settings: &DiscoverySettings,
    ) -> Result<Self, StoreError> {
        let server = match metadata_server.trim() {
            "" => "P2PHANDSHAKE",
            given => given,
        };
        let opened = Directory::open(server, settings.clone());
        let directory = opened.map_err(|error| {
            SettingError::new("metadata_server", metadata_server, error.to_string())
        })?;
        Ok(Self { directory, renewal: Mutex::default() })
    }

    /// Publishes what this client serves.
    pub(crate) fn publish(&self, donation: &Arc<Donation>) -> Result<(), StoreError> {
        let (meta, document) = records(donation);
        let speaker = Arc::downgrade(donation);
        let compose = move || speaker.upgrade().map(|donation| records(&donation).1);
        let spoken = self.directory.speak_for(Box::new(compose));
        let recorded = spoken.and_then(|()| self.directory.record(&meta, &document));
        recorded.map_err(|error| match error {
            DiscoveryError::Backend { server, reason } => {
                StoreError::Metadata { url: server, reason }
            }
            other => StoreError::System(other.to_string()),
        })
    }

    /// Publishes what this client serves now, on a thread that ends with that: no caller waits for
    /// it, and there is one at most. Transfers do not need the records, so a failure is a warning.
    pub(crate) fn renew(self: &Arc<Self>, donation: &Arc<Donation>) {
        if self.directory.is_peer_to_peer() {
            return;
        }
        let mut renewal = self.renewal();
        renewal.is_wanted = true;
        if renewal.is_running {
            return;
        }
        let (this, donation) = (self.clone(), donation.clone());
        let spawned =
            std::thread::Builder::new().name("perigee-record".to_owned()).spawn(move || {
                while this.renewal().goes_on() {
                    this.publish_change(&donation);
                }
            });
        match spawned {
            Ok(_) => renewal.is_running = true,
            Err(error) => {
                tracing::warn!(%error, "The metadata service did not get the changed records");
            }
        }
    }

    fn publish_change(&self, donation: &Donation) {
        let (meta, document) = records(donation);
        match self.directory.record_changed(&meta, &document) {
            Ok(()) | Err(DiscoveryError::Closed) => {}
            Err(error) => {
                tracing::warn!(%error, "The metadata service does not know what changed");
            }
        }
    }

    fn renewal(&self) -> MutexGuard<'_, RecordRenewal> {
        self.renewal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the records back; a service that is gone has none.
    pub(crate) fn withdraw(&self) {
        self.directory.close();
    }
}

impl RecordRenewal {
    /// Whether there is something to publish; otherwise the thread that asks is done.
    fn goes_on(&mut self) -> bool {
        debug_assert!(self.is_running, "one thread publishes, and only that one asks");
        self.is_running = std::mem::take(&mut self.is_wanted);
        self.is_running
    }
}

/// What a client serves, as engines read it.
fn records(donation: &Donation) -> (RpcMeta, SegmentDocument) {
    let (host, port) = donation.endpoint().unwrap_or_default();
    let buffer = |offer: &SegmentOffer| BufferEntry {
        name: offer.name.clone(),
        addr: offer.base,
        length: offer.bytes,
        ..BufferEntry::default()
    };
    let document = SegmentDocument {
        name: donation.name().to_owned(),
        protocol: donation.protocol().to_owned(),
        tcp_data_host: host.clone(),
        tcp_data_port: port,
        tcp_proto_version: TCP_PROTO_VERSION,
        buffers: donation.offers().iter().map(buffer).collect(),
        ..SegmentDocument::default()
    };
    (RpcMeta::new(&host, port), document)
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
            assert!(ClientRecords::new(server, &DiscoverySettings::default()).is_ok(), "{server}");
        }
        let refused =
            ClientRecords::new("zookeeper://a:1", &DiscoverySettings::default()).unwrap_err();
        assert!(refused.to_string().contains("etcd://"), "{refused}");
    }
}
