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
    /// The model whose blocks are kept here; nil in events if `None`.
    pub model_name: Option<String>,
    /// Tokens of a block.
    pub block_size: Option<u32>,
    /// What separates the hashes of this cache from others of the same model.
    pub additional_salt: Option<String>,
    /// The LoRA adapter of the model.
    pub lora_name: Option<String>,
    /// The data-parallel rank in every event.
    pub dp_rank: u32,
    /// Put the key into events as `object_key`.
    pub has_object_key: bool,
    /// Put the older names `type` and `block_hashes` into events.
    pub has_legacy_fields: bool,
    /// Events of one shard that wait for the publisher; the oldest go when there are more. 0 means
    /// no bound.
    pub queue_capacity: usize,
}

#[cfg(test)]
pub(crate) mod samples {
    use super::*;

    /// Everything in events, no replays, and room for eight events.
    pub(crate) fn settings() -> EventSettings {
        EventSettings {
            publish: Endpoint::Tcp("localhost".to_owned(), 0),
            replay: None,
            backend_id: "pool".to_owned(),
            model_name: None,
            block_size: None,
            additional_salt: None,
            lora_name: None,
            dp_rank: 0,
            has_object_key: true,
            has_legacy_fields: true,
            queue_capacity: 8,
        }
    }
}
