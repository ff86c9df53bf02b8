//! What an operator can set about published events.

use crate::endpoint::Endpoint;

/// Settings of the publisher.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventSettings {
    /// Where subscribers connect.
    pub publish: Endpoint,
    /// Where consumers ask for what they missed; nowhere if `None`.
    pub replay: Option<Endpoint>,
    /// Name of this cache in every event.
    pub backend_id: String,
    /// Put the key into events as `object_key`.
    pub has_object_key: bool,
    /// Put the older names `type` and `block_hashes` into events.
    pub has_legacy_fields: bool,
    /// Events of one shard that wait for the publisher; the oldest go when there are more. 0 means
    /// no bound.
    pub queue_capacity: usize,
}
