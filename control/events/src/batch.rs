//! A batch of events in msgpack: `[time in ms, [event, ...], 0]`, each event a map.
//!
//! Field names are Mooncake's, so that its consumers read them. Fields that only an engine knows,
//! such as the model, are nil. `size`, the length of the value in bytes, is ours.

use crate::sequence_hash::sequence_hash;
use crate::settings::EventSettings;
use perigee_master::{KeyChange, KeyEvent};
use serde::Serialize;

/// Where values lie: tiers other than memory are not built.
const MEDIUM: &str = "cpu";
/// The tenant of every key.
const TENANT: &str = "default";

/// An event as it is published.
#[derive(Debug, Clone, Copy)]
pub(crate) enum PublishedEvent<'a> {
    /// A key changed.
    Key(&'a KeyEvent),
    /// Nothing is stored: the master has just begun its life.
    Cleared,
}

/// Always nil on the wire.
type Unknown = Option<()>;
/// `Some(value)` is written, as nil if there is no value; `None` leaves the field out.
type Field<T> = Option<T>;

/// The fields of one event.
#[derive(Debug, Default, Serialize)]
struct EventMap<'a> {
    event_id: u64,
    timestamp: i64,
    event_type: &'static str,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    legacy_type: Field<&'static str>,
    model_name: Unknown,
    block_size: Unknown,
    additional_salt: Unknown,
    lora_name: Unknown,
    tenant_id: &'static str,
    backend_id: &'a str,
    medium: &'static str,
    dp_rank: Unknown,
    #[serde(skip_serializing_if = "Option::is_none")]
    group_id: Field<Option<&'a str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    object_key: Field<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Field<u64>,
    /// At most one: a key is a block of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    seq_hashes: Field<Vec<u64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    block_hashes: Field<Vec<i64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    base_block_idx: Field<Option<u32>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent_hash: Field<Unknown>,
    #[serde(skip_serializing_if = "Option::is_none")]
    token_ids: Field<Unknown>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent_block_hash: Field<Unknown>,
}

/// Encodes a batch whose events are numbered from `first_id`.
pub(crate) fn encode_batch(
    settings: &EventSettings,
    events: &[PublishedEvent<'_>],
    first_id: u64,
    time_ms: i64,
) -> Result<Vec<u8>, rmp_serde::encode::Error> {
    let maps = (first_id..).zip(events);
    let maps: Vec<EventMap<'_>> =
        maps.map(|(id, event)| EventMap::of(settings, event, id, time_ms)).collect();
    rmp_serde::to_vec_named(&(time_ms, maps, 0))
}

impl PublishedEvent<'_> {
    /// Its name and the older one.
    fn names(&self) -> (&'static str, &'static str) {
        match self {
            Self::Key(KeyEvent { change: KeyChange::Stored, .. }) => ("stored", "BlockStored"),
            Self::Key(KeyEvent { change: KeyChange::Removed, .. }) => ("removed", "BlockRemoved"),
            Self::Cleared => ("cleared", "AllBlocksCleared"),
        }
    }
}

impl<'a> EventMap<'a> {
    fn of(
        settings: &'a EventSettings,
        event: &PublishedEvent<'a>,
        event_id: u64,
        timestamp: i64,
    ) -> Self {
        let (event_type, legacy_type) = event.names();
        let mut map = Self {
            event_id,
            timestamp,
            event_type,
            legacy_type: settings.has_legacy_fields.then_some(legacy_type),
            tenant_id: TENANT,
            backend_id: &settings.backend_id,
            medium: MEDIUM,
            ..Self::default()
        };
        if let PublishedEvent::Key(event) = event {
            map.add_key(settings, event);
        }
        map
    }

    fn add_key(&mut self, settings: &EventSettings, event: &'a KeyEvent) {
        let key = String::from_utf8_lossy(&event.key);
        let hash = sequence_hash(&key);
        let has_legacy_fields = settings.has_legacy_fields;
        let is_stored = event.change == KeyChange::Stored;
        self.group_id = Some(event.group.as_deref());
        self.size = Some(event.payload_bytes);
        self.seq_hashes = Some(hash.into_iter().collect());
        self.block_hashes =
            has_legacy_fields.then(|| hash.map(u64::cast_signed).into_iter().collect());
        // A stored block needs its depth or its parent: keys stand alone, at depth 0.
        self.base_block_idx = Some(is_stored.then_some(0));
        self.parent_hash = is_stored.then_some(None);
        self.token_ids = is_stored.then_some(None);
        self.parent_block_hash = (is_stored && has_legacy_fields).then_some(None);
        self.object_key = settings.has_object_key.then(|| key.into_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::Endpoint;
    use std::collections::BTreeMap;

    /// A value of msgpack that tests compare.
    #[derive(Debug, PartialEq, serde::Deserialize)]
    #[serde(untagged)]
    enum Value {
        Nil(()),
        Unsigned(u64),
        Signed(i64),
        Text(String),
        List(Vec<Value>),
    }

    type Batch = (i64, Vec<BTreeMap<String, Value>>, u32);

    fn settings(has_object_key: bool, has_legacy_fields: bool) -> EventSettings {
        EventSettings {
            publish: Endpoint::Tcp("localhost".to_owned(), 0),
            replay: None,
            backend_id: "pool".to_owned(),
            has_object_key,
            has_legacy_fields,
            queue_capacity: 8,
        }
    }

    fn event(change: KeyChange, key: &str, group: Option<&str>) -> KeyEvent {
        KeyEvent {
            change,
            key: key.as_bytes().into(),
            payload_bytes: 4096,
            group: group.map(Into::into),
        }
    }

    fn decoded(settings: &EventSettings, event: PublishedEvent<'_>) -> BTreeMap<String, Value> {
        let bytes = encode_batch(settings, &[event], 7, 1_000).unwrap();
        let (time_ms, mut events, rank): Batch = rmp_serde::from_slice(&bytes).unwrap();
        assert_eq!((time_ms, events.len(), rank), (1_000, 1, 0));
        events.remove(0)
    }

    fn text(text: &str) -> Value {
        Value::Text(text.to_owned())
    }

    #[test]
    fn a_stored_key_that_is_a_hash_has_all_fields_of_mooncake_and_its_size() {
        let hash = u64::MAX - 1;
        let stored = event(KeyChange::Stored, &hash.to_string(), Some("prefix"));
        let map = decoded(&settings(true, true), PublishedEvent::Key(&stored));
        let wanted = [
            ("event_id", Value::Unsigned(7)),
            ("timestamp", Value::Unsigned(1_000)),
            ("event_type", text("stored")),
            ("type", text("BlockStored")),
            ("model_name", Value::Nil(())),
            ("block_size", Value::Nil(())),
            ("additional_salt", Value::Nil(())),
            ("lora_name", Value::Nil(())),
            ("tenant_id", text("default")),
            ("backend_id", text("pool")),
            ("group_id", text("prefix")),
            ("medium", text("cpu")),
            ("dp_rank", Value::Nil(())),
            ("object_key", text(&hash.to_string())),
            ("size", Value::Unsigned(4096)),
            ("seq_hashes", Value::List(vec![Value::Unsigned(hash)])),
            ("block_hashes", Value::List(vec![Value::Signed(-2)])),
            ("base_block_idx", Value::Unsigned(0)),
            ("parent_hash", Value::Nil(())),
            ("token_ids", Value::Nil(())),
            ("parent_block_hash", Value::Nil(())),
        ];
        assert_eq!(map, wanted.map(|(name, value)| (name.to_owned(), value)).into());
    }

    #[test]
    fn a_removed_key_has_no_parent_and_switches_leave_fields_out() {
        let removed = event(KeyChange::Removed, "page_0_k", None);
        let map = decoded(&settings(false, false), PublishedEvent::Key(&removed));
        assert_eq!(map["event_type"], text("removed"));
        assert_eq!(map["seq_hashes"], Value::List(vec![]));
        assert_eq!((&map["group_id"], &map["base_block_idx"]), (&Value::Nil(()), &Value::Nil(())));
        let absent = ["type", "block_hashes", "object_key", "parent_hash", "parent_block_hash"];
        assert!(absent.iter().all(|name| !map.contains_key(*name)), "{map:?}");
    }

    #[test]
    fn a_cleared_event_names_no_key() {
        let map = decoded(&settings(true, true), PublishedEvent::Cleared);
        assert_eq!(
            (&map["event_type"], &map["type"]),
            (&text("cleared"), &text("AllBlocksCleared"))
        );
        assert!(!map.contains_key("object_key") && !map.contains_key("seq_hashes"));
    }
}
