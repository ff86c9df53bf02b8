//! Registration with the HTTP metadata service, in the documents that transfer engines read.

use crate::error::StoreError;
use crate::limits::METADATA_DEADLINE;
use perigee_rpc::SegmentOffer;
use serde_json::json;

/// This client's records in a metadata service.
#[derive(Debug)]
pub(crate) struct Registration {
    url: String,
    agent: ureq::Agent,
    keys: [String; 2],
}

impl Registration {
    /// A registration at `http://host:port/metadata`; nothing for `P2PHANDSHAKE`.
    pub(crate) fn new(
        metadata_server: &str,
        cluster: Option<&str>,
        name: &str,
    ) -> Result<Option<Self>, StoreError> {
        let server = metadata_server.trim();
        if server.is_empty() || server.eq_ignore_ascii_case("P2PHANDSHAKE") {
            return Ok(None);
        }
        if !server.starts_with("http://") {
            return Err(StoreError::Config {
                name: "metadata_server",
                value: metadata_server.to_owned(),
                reason: "write P2PHANDSHAKE or http://host:port/metadata; other services are not built yet".to_owned(),
            });
        }
        let agent = ureq::Agent::config_builder()
            .timeout_global(Some(METADATA_DEADLINE))
            .build()
            .new_agent();
        let cluster = cluster
            .map(|cluster| format!("{cluster}/"))
            .unwrap_or_default();
        let keys = [
            format!("mooncake/{cluster}ram/{name}"),
            format!("mooncake/{cluster}rpc_meta/{name}"),
        ];
        Ok(Some(Self {
            url: server.to_owned(),
            agent,
            keys,
        }))
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
        let buffers: Vec<_> = offers
            .iter()
            .map(|o| json!({"name": o.name, "addr": o.base, "length": o.bytes}))
            .collect();
        let segment = json!({"name": name, "protocol": protocol, "buffers": buffers, "tcp_data_host": host,
            "tcp_data_port": port, "tcp_proto_version": 2, "rdma_server_name": ""});
        let handshake = json!({"ip_or_host_name": host, "rpc_port": port});
        self.store(&self.keys[0], &segment.to_string())?;
        self.store(&self.keys[1], &handshake.to_string())
    }

    /// Takes the records back; a service that is gone has none.
    pub(crate) fn withdraw(&self) {
        for key in &self.keys {
            let _ = self.agent.delete(&self.url).query("key", key).call();
        }
    }

    fn store(&self, key: &str, document: &str) -> Result<(), StoreError> {
        let answer = self.agent.put(&self.url).query("key", key).send(document);
        answer.map(|_| ()).map_err(|error| StoreError::Metadata {
            url: self.url.clone(),
            reason: error.to_string(),
        })
    }
}
