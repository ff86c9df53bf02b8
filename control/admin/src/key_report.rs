//! What an operator is shown of one key. Invariant: times are milliseconds before now, so that no
//! clock of another host is needed to read them.

use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// What the master knows of a key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyReport {
    /// The shard of the master that has the key.
    pub shard: usize,
    /// What can be read; null if nothing can.
    pub object: Option<ReportedObject>,
    /// Puts that have begun and not ended.
    pub unfinished_puts: usize,
    /// Replicas that went, the latest first.
    pub departures: Vec<ReportedDeparture>,
    /// How far back departures are remembered; null if none of this shard was forgotten.
    pub departures_reach_ms: Option<u64>,
}

/// An object that can be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportedObject {
    /// Client that finished the last put, as other routes write it; null if a disk has brought it
    /// back.
    pub writer: Option<String>,
    /// CRC-32C of the payload, eight hexadecimal digits.
    pub crc32c: String,
    /// Its group, if it has one.
    pub group: Option<String>,
    /// Whether it is never evicted.
    pub hard_pin: bool,
    /// Milliseconds until its soft pin ends; `None` without one.
    pub soft_pin_ms: Option<u64>,
    /// Milliseconds until the lease of its readers ends; 0 without one.
    pub lease_ms: u64,
    /// Whether it was read.
    pub was_read: bool,
    /// Since when it was not touched, at least.
    pub idle_ms: u64,
    /// Its replicas, in the order in which readers are given them.
    pub replicas: Vec<ReportedReplica>,
}

/// A replica that can be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportedReplica {
    /// `memory` or `disk`.
    pub medium: Cow<'static, str>,
    /// Name of the segment or disk.
    pub segment: String,
    /// Where its owner serves reads.
    pub endpoint: String,
    /// Offset in the segment; on a disk the number of the log's segment and the place in it.
    pub offset: u64,
    /// Payload length in bytes.
    pub payload_bytes: u64,
    /// Number of this writing of its place.
    pub generation: u64,
    /// Where it stands in the order of eviction.
    pub standing: Cow<'static, str>,
}

/// A replica that went.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportedDeparture {
    /// When.
    pub ago_ms: u64,
    /// Why, in one word for programs.
    pub cause: Cow<'static, str>,
    /// Why, for people.
    pub reason: Cow<'static, str>,
    /// `memory` or `disk`.
    pub medium: Cow<'static, str>,
    /// Payload length in bytes.
    pub payload_bytes: u64,
    /// For how long it had not been touched, at least.
    pub idle_ms: u64,
    /// Whether it was read before.
    pub was_read: bool,
    /// Replicas that its object kept.
    pub replicas_left: u32,
    /// Why no disk has a copy, where one might.
    pub no_copy: Option<Cow<'static, str>>,
}
