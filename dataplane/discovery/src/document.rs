//! The document of one segment: which memory a process offers and how to reach it.
//!
//! Invariant: what Mooncake writes is read, what is written Mooncake reads, and fields that are
//! not known here come out again as they went in.

mod stamp;
#[cfg(test)]
mod tests;

use crate::error::DocumentError;
use crate::limits::{BUFFERS_MAX, DEVICES_MAX, FRAME_BYTES_MAX, NAME_BYTES_MAX, TEXT_BYTES_MAX};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Version of [`Extra`] that this build writes.
pub const EXTRA_VERSION: u32 = 1;

/// What one process offers: its buffers, and the ways to them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SegmentDocument {
    /// Name of the segment; in P2P mode `host:port` of the handshake.
    pub name: String,
    /// `tcp`, `rdma`, or several with commas.
    pub protocol: String,
    /// Host of Mooncake's TCP data port; empty = the host of the handshake.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub tcp_data_host: String,
    /// Mooncake's TCP data port; 0 = none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub tcp_data_port: u16,
    /// Version of Mooncake's TCP dialect; 2 = with status frames, 0 = not said.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub tcp_proto_version: u32,
    /// Where RDMA handshakes go when that is not the segment's name.
    #[serde(default)]
    pub rdma_server_name: String,
    /// When the document was made, as text.
    #[serde(default)]
    pub timestamp: String,
    /// RDMA devices; keys of buffers are in this order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<DeviceEntry>,
    /// Registered memory.
    #[serde(default, deserialize_with = "list")]
    pub buffers: Vec<BufferEntry>,
    /// Preferred devices per memory location, in Mooncake's shape.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub priority_matrix: Value,
    /// What only Perigee peers understand; a document without it is Mooncake's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub perigee: Option<Extra>,
    /// Fields of other transports and newer versions.
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

/// One RDMA device of a segment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceEntry {
    /// Device name, for example `mlx5_0`.
    pub name: String,
    /// Local identifier; 0 on Ethernet.
    #[serde(default)]
    pub lid: u16,
    /// Global identifier as sixteen hex pairs with colons.
    #[serde(default)]
    pub gid: String,
}

/// One registered buffer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BufferEntry {
    /// Memory location (`cpu:0`, `cuda:1`, `*`); Mooncake's TCP transport writes the segment here.
    #[serde(default)]
    pub name: String,
    /// First byte.
    pub addr: u64,
    /// Bytes.
    pub length: u64,
    /// Remote keys, one per device.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "list")]
    pub rkey: Vec<u32>,
    /// Local keys, one per device.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "list")]
    pub lkey: Vec<u32>,
}

/// What Perigee adds to a document.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Extra {
    /// Version of this object.
    pub version: u32,
    /// Identity of this run of the process: 32 hex digits, new at each start.
    pub epoch: String,
    /// `host:port` of Perigee's own TCP dialect; empty = none.
    #[serde(default)]
    pub data_endpoint: String,
    /// What the rails need to know of each other.
    #[serde(default)]
    pub rails: Vec<Value>,
    /// Fields of newer versions.
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

/// A new identity for one run of a process: 32 random hex digits.
///
/// # Errors
/// The system has no random numbers to give.
pub fn new_epoch() -> Result<String, getrandom::Error> {
    let mut random = [0; 16];
    getrandom::fill(&mut random)?;
    Ok(format!("{:032x}", u128::from_le_bytes(random)))
}

impl SegmentDocument {
    /// A document without buffers and ways, made now.
    pub fn new(name: &str, protocol: &str) -> Self {
        Self {
            name: name.to_owned(),
            protocol: protocol.to_owned(),
            timestamp: stamp::now(),
            ..Self::default()
        }
    }

    /// Sets the time of making to now.
    pub fn touch(&mut self) {
        self.timestamp = stamp::now();
    }

    /// Whether a Mooncake engine wrote it.
    pub fn is_upstream(&self) -> bool {
        self.perigee.is_none()
    }

    /// The buffer that holds a whole range, if one does.
    pub fn buffer_holding(&self, address: u64, bytes: u64) -> Option<&BufferEntry> {
        let end = address.checked_add(bytes)?;
        self.buffers.iter().find(|buffer| {
            buffer.addr <= address && end <= buffer.addr.saturating_add(buffer.length)
        })
    }

    /// The document as JSON.
    pub fn encode(&self) -> String {
        encode(self)
    }

    /// The document as JSON that others will read.
    ///
    /// # Errors
    /// It breaks a limit.
    pub fn to_json(&self) -> Result<String, DocumentError> {
        self.check()?;
        let json = self.encode();
        at_most("segment document", json.len(), FRAME_BYTES_MAX)?;
        Ok(json)
    }

    /// Who asks a peer, without what it offers, which may be too much for one question.
    pub(crate) fn as_asking(&self) -> Self {
        Self {
            name: self.name.clone(),
            protocol: self.protocol.clone(),
            tcp_data_host: self.tcp_data_host.clone(),
            tcp_data_port: self.tcp_data_port,
            tcp_proto_version: self.tcp_proto_version,
            rdma_server_name: self.rdma_server_name.clone(),
            timestamp: self.timestamp.clone(),
            devices: self.devices.clone(),
            perigee: self.perigee.as_ref().map(Extra::as_asking),
            ..Self::default()
        }
    }

    /// Reads a document.
    ///
    /// # Errors
    /// It is not JSON of this shape, or breaks a limit.
    pub fn decode(json: &[u8]) -> Result<Self, DocumentError> {
        let document: Self = decode("segment document", json)?;
        document.check()?;
        Ok(document)
    }

    fn check(&self) -> Result<(), DocumentError> {
        name("name", &self.name)?;
        for (field, text) in [
            ("protocol", &self.protocol),
            ("tcp_data_host", &self.tcp_data_host),
            ("rdma_server_name", &self.rdma_server_name),
            ("timestamp", &self.timestamp),
        ] {
            at_most(field, text.len(), TEXT_BYTES_MAX)?;
        }
        at_most("devices", self.devices.len(), DEVICES_MAX)?;
        at_most("buffers", self.buffers.len(), BUFFERS_MAX)?;
        self.devices.iter().try_for_each(DeviceEntry::check)?;
        self.buffers.iter().try_for_each(BufferEntry::check)?;
        self.perigee.as_ref().map_or(Ok(()), Extra::check)
    }
}

impl DeviceEntry {
    fn check(&self) -> Result<(), DocumentError> {
        name("devices.name", &self.name)?;
        at_most("devices.gid", self.gid.len(), NAME_BYTES_MAX)
    }
}

impl BufferEntry {
    fn check(&self) -> Result<(), DocumentError> {
        at_most("buffers.name", self.name.len(), NAME_BYTES_MAX)?;
        at_most("buffers.rkey", self.rkey.len(), DEVICES_MAX)?;
        at_most("buffers.lkey", self.lkey.len(), DEVICES_MAX)?;
        let wraps = DocumentError::Wraps { address: self.addr, bytes: self.length };
        self.addr.checked_add(self.length).map(|_| ()).ok_or(wraps)
    }
}

impl Extra {
    /// The object of this build, without ways.
    pub fn new(epoch: &str) -> Self {
        Self { version: EXTRA_VERSION, epoch: epoch.to_owned(), ..Self::default() }
    }

    /// What a peer that is asked may need to know of who asks.
    fn as_asking(&self) -> Self {
        Self {
            version: self.version,
            epoch: self.epoch.clone(),
            data_endpoint: self.data_endpoint.clone(),
            ..Self::default()
        }
    }

    fn check(&self) -> Result<(), DocumentError> {
        name("perigee.epoch", &self.epoch)?;
        at_most("perigee.data_endpoint", self.data_endpoint.len(), NAME_BYTES_MAX)?;
        at_most("perigee.rails", self.rails.len(), DEVICES_MAX)
    }
}

/// JSON of a document or message.
pub(crate) fn encode(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("structs with text keys always have a JSON form")
}

/// Reads any document or message; `what` names it in the error.
pub(crate) fn decode<T: DeserializeOwned>(
    what: &'static str,
    json: &[u8],
) -> Result<T, DocumentError> {
    at_most(what, json.len(), FRAME_BYTES_MAX)?;
    serde_json::from_slice(json)
        .map_err(|error| DocumentError::Malformed { what, reason: error.to_string() })
}

pub(crate) fn name(field: &'static str, text: &str) -> Result<(), DocumentError> {
    if text.is_empty() {
        return Err(DocumentError::Empty { field });
    }
    at_most(field, text.len(), NAME_BYTES_MAX)
}

pub(crate) fn at_most(
    field: &'static str,
    found: usize,
    limit: usize,
) -> Result<(), DocumentError> {
    if found <= limit {
        return Ok(());
    }
    Err(DocumentError::TooLarge { field, found, limit })
}

/// A list that Mooncake writes as `null` when it is empty.
pub(crate) fn list<'de, T, D>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    T: Deserialize<'de>,
    D: serde::Deserializer<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

fn is_zero<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
