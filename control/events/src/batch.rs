//! A batch of events in msgpack: `[time in ms, [event, ...], rank]`, each event a map.
//!
//! Field names are Mooncake's, so that its consumers read them. Fields that only an engine knows,
//! such as its tokens, are nil. `size`, the length of the value in bytes, is ours. Most bytes of an
//! event are the same in each: they are written once, at the start.
//!
//! Mooncake 0.3.13 wrote `dp_rank` as nil and `block_hashes` as signed numbers. Its indexer takes
//! numbers only, and refuses hashes that differ from `seq_hashes`; earlier consumers take both.

use crate::event_template::{EventTemplate, NIL};
use crate::sequence_hash::sequence_hash;
use crate::settings::EventSettings;
use perigee_master::{KeyChange, KeyEvent, Medium};
use perigee_schemas::TenantId;
use perigee_schemas::tenant::DEFAULT_TENANT;
use rmp::encode::{ValueWriteError, write_array_len, write_sint, write_str, write_uint};

#[derive(Debug, Clone, Copy)]
pub(crate) enum PublishedEvent<'a> {
    /// A key changed.
    Key(&'a KeyEvent),
    /// Nothing is stored in a medium: the master has just begun its life.
    Cleared(Medium),
}

/// Writes batches.
#[derive(Debug)]
pub(crate) struct BatchEncoder {
    has_object_key: bool,
    has_legacy_fields: bool,
    dp_rank: u32,
    /// Of each medium.
    templates: [MediumTemplates; Medium::ALL.len()],
}

/// The templates of the events of one medium.
#[derive(Debug)]
struct MediumTemplates {
    stored: EventTemplate,
    removed: EventTemplate,
    cleared: EventTemplate,
}

impl MediumTemplates {
    fn new(settings: &EventSettings, medium: Medium) -> Result<Self, ValueWriteError> {
        Ok(Self {
            stored: EventTemplate::of_key(settings, KeyChange::Stored, medium)?,
            removed: EventTemplate::of_key(settings, KeyChange::Removed, medium)?,
            cleared: EventTemplate::cleared(settings, medium)?,
        })
    }
}

impl BatchEncoder {
    pub(crate) fn new(settings: &EventSettings) -> Result<Self, ValueWriteError> {
        Ok(Self {
            has_object_key: settings.has_object_key,
            has_legacy_fields: settings.has_legacy_fields,
            dp_rank: settings.dp_rank,
            templates: [
                MediumTemplates::new(settings, Medium::Memory)?,
                MediumTemplates::new(settings, Medium::Disk)?,
            ],
        })
    }

    fn template(&self, event: &PublishedEvent<'_>) -> &EventTemplate {
        let (PublishedEvent::Key(KeyEvent { medium, .. }) | PublishedEvent::Cleared(medium)) =
            event;
        let [memory, disk] = &self.templates;
        let of_medium = match medium {
            Medium::Memory => memory,
            Medium::Disk => disk,
        };
        match event {
            PublishedEvent::Key(KeyEvent { change: KeyChange::Stored, .. }) => &of_medium.stored,
            PublishedEvent::Key(KeyEvent { change: KeyChange::Removed, .. }) => &of_medium.removed,
            PublishedEvent::Cleared(_) => &of_medium.cleared,
        }
    }

    /// Encodes a batch whose events are numbered from `first_id`.
    pub(crate) fn encode(
        &self,
        events: &[PublishedEvent<'_>],
        first_id: u64,
        time_ms: i64,
    ) -> Result<Vec<u8>, ValueWriteError> {
        let mut out = Vec::with_capacity(EVENT_BYTES * events.len() + EVENT_BYTES);
        write_array_len(&mut out, 3)?;
        write_sint(&mut out, time_ms)?;
        write_array_len(&mut out, u32::try_from(events.len()).unwrap_or(u32::MAX))?;
        for (id, event) in (first_id..).zip(events) {
            self.write_event(&mut out, event, id, time_ms)?;
        }
        write_uint(&mut out, u64::from(self.dp_rank))?;
        Ok(out)
    }

    fn write_event(
        &self,
        out: &mut Vec<u8>,
        event: &PublishedEvent<'_>,
        id: u64,
        time_ms: i64,
    ) -> Result<(), ValueWriteError> {
        let template = self.template(event);
        out.extend_from_slice(&template.id);
        write_uint(out, id)?;
        out.extend_from_slice(&template.time);
        write_sint(out, time_ms)?;
        out.extend_from_slice(&template.tenant);
        match event {
            PublishedEvent::Key(event) => self.write_key(out, template, event),
            PublishedEvent::Cleared(_) => {
                write_str(out, DEFAULT_TENANT)?;
                out.extend_from_slice(&template.group);
                Ok(())
            }
        }
    }

    fn write_key(
        &self,
        out: &mut Vec<u8>,
        template: &EventTemplate,
        event: &KeyEvent,
    ) -> Result<(), ValueWriteError> {
        let (tenant, key) = TenantId::split(&event.key);
        write_str(out, &String::from_utf8_lossy(tenant))?;
        out.extend_from_slice(&template.group);
        match &event.group {
            Some(group) => {
                let (_, group) = TenantId::split(group.as_bytes());
                write_str(out, &String::from_utf8_lossy(group))?;
            }
            None => out.push(NIL),
        }
        let key = String::from_utf8_lossy(key);
        if self.has_object_key {
            out.extend_from_slice(&template.object_key);
            write_str(out, &key)?;
        }
        out.extend_from_slice(&template.size);
        write_uint(out, event.payload_bytes)?;
        // At most one hash: a key is a block of its own.
        let hash = sequence_hash(&key);
        out.extend_from_slice(&template.hashes);
        write_array_len(out, u32::from(hash.is_some()))?;
        if let Some(hash) = hash {
            write_uint(out, hash)?;
        }
        if self.has_legacy_fields {
            out.extend_from_slice(&template.legacy_hashes);
            write_array_len(out, u32::from(hash.is_some()))?;
            if let Some(hash) = hash {
                write_uint(out, hash)?;
            }
        }
        out.extend_from_slice(&template.end);
        Ok(())
    }
}

/// An event of a short key, roughly.
const EVENT_BYTES: usize = 512;

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
            model_name: None,
            block_size: None,
            additional_salt: None,
            lora_name: None,
            dp_rank: 0,
            has_object_key,
            has_legacy_fields,
            queue_capacity: 8,
        }
    }

    fn event(change: KeyChange, key: &str, group: Option<&str>) -> KeyEvent {
        KeyEvent {
            change,
            medium: Medium::Memory,
            key: key.as_bytes().into(),
            payload_bytes: 4096,
            group: group.map(Into::into),
        }
    }

    fn decoded(settings: &EventSettings, event: PublishedEvent<'_>) -> BTreeMap<String, Value> {
        let bytes = BatchEncoder::new(settings).unwrap().encode(&[event], 7, 1_000).unwrap();
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
            ("dp_rank", Value::Unsigned(0)),
            ("object_key", text(&hash.to_string())),
            ("size", Value::Unsigned(4096)),
            ("seq_hashes", Value::List(vec![Value::Unsigned(hash)])),
            ("block_hashes", Value::List(vec![Value::Unsigned(hash)])),
            ("base_block_idx", Value::Unsigned(0)),
            ("parent_hash", Value::Nil(())),
            ("token_ids", Value::Nil(())),
            ("parent_block_hash", Value::Nil(())),
        ];
        assert_eq!(map, wanted.map(|(name, value)| (name.to_owned(), value)).into());
    }

    #[test]
    fn what_an_operator_says_of_the_model_is_in_every_event() {
        let named = EventSettings {
            model_name: Some("a-model".to_owned()),
            block_size: Some(16),
            additional_salt: Some("w8a8".to_owned()),
            lora_name: Some("sql".to_owned()),
            dp_rank: 3,
            ..settings(true, true)
        };
        let removed = event(KeyChange::Removed, "7", None);
        for event in [PublishedEvent::Key(&removed), PublishedEvent::Cleared(Medium::Disk)] {
            let bytes = BatchEncoder::new(&named).unwrap().encode(&[event], 7, 1_000).unwrap();
            let (_, events, rank): Batch = rmp_serde::from_slice(&bytes).unwrap();
            let shown = ["model_name", "block_size", "additional_salt", "lora_name", "dp_rank"]
                .map(|name| &events[0][name]);
            let (block, in_event) = (Value::Unsigned(16), Value::Unsigned(3));
            assert_eq!(shown, [&text("a-model"), &block, &text("w8a8"), &text("sql"), &in_event]);
            assert_eq!(rank, 3);
        }
    }

    #[test]
    fn a_key_of_a_tenant_is_shown_without_it_and_the_tenant_by_its_name() {
        let red = TenantId::parse("red").unwrap();
        let group = red.stored("prefix");
        let stored = event(KeyChange::Stored, &red.stored("17"), Some(&group));
        let map = decoded(&settings(true, false), PublishedEvent::Key(&stored));
        let shown = ["tenant_id", "object_key", "group_id", "seq_hashes"].map(|name| &map[name]);
        let hashes = Value::List(vec![Value::Unsigned(17)]);
        assert_eq!(shown, [&text("red"), &text("17"), &text("prefix"), &hashes]);
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
    fn events_of_all_kinds_follow_each_other_under_all_switches() {
        let stored = event(KeyChange::Stored, "7", Some("prefix"));
        let removed = event(KeyChange::Removed, "page", None);
        let kinds = [
            PublishedEvent::Key(&stored),
            PublishedEvent::Cleared(Medium::Memory),
            PublishedEvent::Key(&removed),
            PublishedEvent::Key(&stored),
        ];
        for (has_object_key, has_legacy_fields) in
            [(false, false), (false, true), (true, false), (true, true)]
        {
            let encoder = BatchEncoder::new(&settings(has_object_key, has_legacy_fields)).unwrap();
            let bytes = encoder.encode(&kinds, 7, 1_000).unwrap();
            let (_, events, _): Batch = rmp_serde::from_slice(&bytes).unwrap();
            let names: Vec<&Value> = events.iter().map(|map| &map["event_type"]).collect();
            assert_eq!(
                names,
                [&text("stored"), &text("cleared"), &text("removed"), &text("stored")]
            );
        }
    }

    #[test]
    fn each_event_names_its_medium_in_the_words_of_mooncake() {
        for (medium, word) in [(Medium::Memory, "cpu"), (Medium::Disk, "disk")] {
            let of = |change| KeyEvent { medium, ..event(change, "7", None) };
            let (stored, removed) = (of(KeyChange::Stored), of(KeyChange::Removed));
            for event in [
                PublishedEvent::Key(&stored),
                PublishedEvent::Key(&removed),
                PublishedEvent::Cleared(medium),
            ] {
                assert_eq!(decoded(&settings(true, true), event)["medium"], text(word));
            }
        }
    }

    #[test]
    fn a_cleared_event_names_no_key() {
        let map = decoded(&settings(true, true), PublishedEvent::Cleared(Medium::Memory));
        assert_eq!(
            (&map["event_type"], &map["type"]),
            (&text("cleared"), &text("AllBlocksCleared"))
        );
        assert!(!map.contains_key("object_key") && !map.contains_key("seq_hashes"));
    }
}
