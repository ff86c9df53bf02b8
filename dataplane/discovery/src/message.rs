//! What peers send each other in the handshake, and where they are found.
//! Invariant: a message that was decoded keeps all limits.

use crate::document::{at_most, decode, encode, list, name};
use crate::error::DocumentError;
use crate::limits::{NAME_BYTES_MAX, PAYLOAD_BYTES_MAX, QUEUE_PAIRS_MAX, TEXT_BYTES_MAX};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::fmt;

/// Where the handshake of an engine is served.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RpcMeta {
    /// Address or name of the host.
    pub ip_or_host_name: String,
    /// Port of its handshake server.
    pub rpc_port: u16,
    /// The run of a Perigee engine, as its document says it
    /// ([`Extra::epoch`](crate::Extra::epoch)); Mooncake's have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub perigee_epoch: Option<String>,
}

impl RpcMeta {
    /// The handshake server at a host's port.
    pub fn new(host: &str, port: u16) -> Self {
        Self { ip_or_host_name: host.to_owned(), rpc_port: port, perigee_epoch: None }
    }

    /// The epoch of the engine: another engine that gets the port later has another one.
    pub fn of_life(self, epoch: &str) -> Self {
        Self { perigee_epoch: Some(epoch.to_owned()), ..self }
    }

    /// The record as JSON.
    pub fn encode(&self) -> String {
        encode(self)
    }

    /// Reads a record.
    ///
    /// # Errors
    /// It is not JSON of this shape, or breaks a limit.
    pub fn decode(json: &[u8]) -> Result<Self, DocumentError> {
        let meta: Self = decode("rpc_meta record", json)?;
        name("ip_or_host_name", &meta.ip_or_host_name)?;
        let epoch = meta.perigee_epoch.as_ref().map_or(0, String::len);
        at_most("perigee_epoch", epoch, NAME_BYTES_MAX)?;
        Ok(meta)
    }
}

impl fmt::Display for RpcMeta {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.ip_or_host_name.contains(':') {
            return write!(formatter, "[{}]:{}", self.ip_or_host_name, self.rpc_port);
        }
        write!(formatter, "{}:{}", self.ip_or_host_name, self.rpc_port)
    }
}

/// Request and answer of the exchange of queue pairs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ConnectionMessage {
    /// `server@device` of the sender.
    #[serde(default)]
    pub local_nic_path: String,
    /// `server@device` of the receiver.
    #[serde(default)]
    pub peer_nic_path: String,
    /// Local identifier of the sender's device; 0 on Ethernet.
    #[serde(default)]
    pub local_lid: u16,
    /// Global identifier of the sender's device.
    #[serde(default)]
    pub local_gid: String,
    /// The sender's queue pair numbers.
    #[serde(default, deserialize_with = "list")]
    pub qp_num: Vec<u32>,
    /// Why the answer is a refusal; empty = it is none.
    #[serde(default)]
    pub reply_msg: String,
    /// The sender's queue pairs are ready to receive.
    #[serde(default, skip_serializing_if = "is_false")]
    pub ready_ack: bool,
    /// Whatever else the transports agree on.
    #[serde(default)]
    pub payload: String,
    /// Fields of newer versions.
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

impl ConnectionMessage {
    /// The answer that refuses, with the reason.
    pub fn refusal(reason: &str) -> Self {
        Self { reply_msg: reason.to_owned(), ..Self::default() }
    }

    /// The message as JSON.
    pub fn encode(&self) -> String {
        encode(self)
    }

    /// Reads a message.
    ///
    /// # Errors
    /// It is not JSON of this shape, or breaks a limit.
    pub fn decode(json: &[u8]) -> Result<Self, DocumentError> {
        let message: Self = decode("connection message", json)?;
        at_most("local_nic_path", message.local_nic_path.len(), NAME_BYTES_MAX)?;
        at_most("peer_nic_path", message.peer_nic_path.len(), NAME_BYTES_MAX)?;
        at_most("local_gid", message.local_gid.len(), NAME_BYTES_MAX)?;
        at_most("qp_num", message.qp_num.len(), QUEUE_PAIRS_MAX)?;
        at_most("reply_msg", message.reply_msg.len(), TEXT_BYTES_MAX)?;
        at_most("payload", message.payload.len(), PAYLOAD_BYTES_MAX)?;
        Ok(message)
    }
}

/// A message that one application sends another.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotifyMessage {
    /// What the application calls it.
    #[serde(default)]
    pub name: String,
    /// Its text.
    #[serde(rename = "notify_msg", default)]
    pub message: String,
}

impl NotifyMessage {
    /// The message as JSON.
    pub fn encode(&self) -> String {
        encode(self)
    }

    /// Reads a message.
    ///
    /// # Errors
    /// It is not JSON of this shape, or breaks a limit.
    pub fn decode(json: &[u8]) -> Result<Self, DocumentError> {
        let message: Self = decode("notification", json)?;
        at_most("name", message.name.len(), NAME_BYTES_MAX)?;
        at_most("notify_msg", message.message.len(), PAYLOAD_BYTES_MAX)?;
        Ok(message)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ProbeAnswer {
    pub(crate) status: String,
}

/// The word by which Mooncake's peers recognise a yes.
pub(crate) const SUCCESS: &str = "success";

fn is_false(value: &bool) -> bool {
    !value
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes that Mooncake 0.3.13 answered with.
    const REAL_CONNECTION: &[u8] = b"{\"local_gid\":\"\",\"local_lid\":0,\"local_nic_path\":\"\",\
        \"payload\":\"\",\"peer_nic_path\":\"\",\"qp_num\":[],\"reply_msg\":\"\"}\n";

    #[test]
    fn real_connection_answer_is_read() {
        let message = ConnectionMessage::decode(REAL_CONNECTION).unwrap();
        assert_eq!(message, ConnectionMessage::default());
    }

    #[test]
    fn connection_survives_the_way_with_unknown_fields() {
        let json =
            br#"{"local_nic_path":"a@b","qp_num":[1,4294967295],"ready_ack":true,"x":{"y":[1]}}"#;
        let message = ConnectionMessage::decode(json).unwrap();
        assert_eq!(message.qp_num, [1, u32::MAX]);
        assert!(message.ready_ack && message.unknown.contains_key("x"));
        assert_eq!(ConnectionMessage::decode(message.encode().as_bytes()), Ok(message));
    }

    #[test]
    fn notification_has_mooncakes_field_names() {
        let message = NotifyMessage { name: "nm".into(), message: "ms".into() };
        assert_eq!(message.encode(), r#"{"name":"nm","notify_msg":"ms"}"#);
    }

    #[test]
    fn messages_beyond_the_limits_are_refused() {
        let many = format!(r#"{{"qp_num":{:?}}}"#, vec![1; QUEUE_PAIRS_MAX + 1]);
        let long = format!(r#"{{"reply_msg":"{}"}}"#, "x".repeat(TEXT_BYTES_MAX + 1));
        for json in [many.as_str(), long.as_str(), r#"{"qp_num":[4294967296]}"#, "[]", "", "{"] {
            assert!(ConnectionMessage::decode(json.as_bytes()).is_err());
        }
        assert!(RpcMeta::decode(br#"{"ip_or_host_name":"","rpc_port":1}"#).is_err());
        assert!(RpcMeta::decode(br#"{"ip_or_host_name":"a","rpc_port":65536}"#).is_err());
    }

    #[test]
    fn ipv6_hosts_are_shown_in_brackets() {
        assert_eq!(RpcMeta::new("fe80::1", 5).to_string(), "[fe80::1]:5");
        assert_eq!(RpcMeta::new("host", 5).to_string(), "host:5");
    }
}
