//! Events of a batch in msgpack: `[time in ms, [event, ...], rank]`, each event a map.
//!
//! Field names are Mooncake's, so that its consumers read them. Fields that only an engine knows,
//! such as its tokens, are nil. `size`, the length of the value in bytes, is ours. Most bytes of an
//! event are the same in each: they come first, in one piece that is written once, at the start.
//!
//! Mooncake 0.3.13 wrote `dp_rank` as nil and `block_hashes` as signed numbers. Its indexer takes
//! numbers only, and refuses hashes that differ from `seq_hashes`; earlier consumers take both.

use crate::event_template::EventTemplate;
use crate::msgpack::{NIL, array, long, put_text, put_uint, short_array};
use crate::published_event::{NamedKeyEvent, PublishedEvent};
use crate::settings::EventSettings;
use perigee_master::{KeyChange, Medium};
use perigee_schemas::tenant::DEFAULT_TENANT;

/// Names of the fields that differ, as msgpack has them.
const EVENT_ID: &[u8] = b"\xA8event_id";
const TENANT_ID: &[u8] = b"\xA9tenant_id";
const GROUP_ID: &[u8] = b"\xA8group_id";
const OBJECT_KEY: &[u8] = b"\xAAobject_key";
const SIZE: &[u8] = b"\xA4size";
const SEQ_HASHES: &[u8] = b"\xAAseq_hashes";
const BLOCK_HASHES: &[u8] = b"\xACblock_hashes";

/// Writes batches.
#[derive(Debug)]
pub(crate) struct BatchEncoder {
    has_object_key: bool,
    has_legacy_fields: bool,
    dp_rank: u32,
    time_ms: u64,
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
    fn new(settings: &EventSettings, medium: Medium) -> Self {
        Self {
            stored: EventTemplate::of_key(settings, KeyChange::Stored, medium),
            removed: EventTemplate::of_key(settings, KeyChange::Removed, medium),
            cleared: EventTemplate::cleared(settings, medium),
        }
    }

    fn set_time(&mut self, time_ms: u64) {
        for template in [&mut self.stored, &mut self.removed, &mut self.cleared] {
            template.set_time(time_ms);
        }
    }
}

/// A batch whose events are still being written.
#[derive(Debug)]
pub(crate) struct OpenBatch {
    /// Where the number of its events stands.
    count_at: usize,
    events: u16,
}

impl OpenBatch {
    pub(crate) fn events(&self) -> u16 {
        self.events
    }
}

impl BatchEncoder {
    pub(crate) fn new(settings: &EventSettings) -> Self {
        Self {
            has_object_key: settings.has_object_key,
            has_legacy_fields: settings.has_legacy_fields,
            dp_rank: settings.dp_rank,
            time_ms: 0,
            templates: Medium::ALL.map(|medium| MediumTemplates::new(settings, medium)),
        }
    }

    /// The time of what is written from now on.
    pub(crate) fn set_time(&mut self, time_ms: u64) {
        self.time_ms = time_ms;
        self.templates.iter_mut().for_each(|templates| templates.set_time(time_ms));
    }

    /// Begins a batch.
    pub(crate) fn begin(&self, out: &mut Vec<u8>) -> OpenBatch {
        out.push(short_array(3));
        out.extend_from_slice(&long(self.time_ms));
        let count_at = out.len();
        out.extend_from_slice(&array(0));
        OpenBatch { count_at, events: 0 }
    }

    /// Adds an event to it.
    pub(crate) fn add(
        &self,
        out: &mut Vec<u8>,
        batch: &mut OpenBatch,
        event: &PublishedEvent<'_>,
        id: u64,
    ) {
        batch.events += 1;
        out.extend_from_slice(self.template(event).bytes());
        out.extend_from_slice(EVENT_ID);
        put_uint(out, id);
        out.extend_from_slice(TENANT_ID);
        match event {
            PublishedEvent::Key(event) => self.put_key(out, event),
            PublishedEvent::Cleared(_) => put_text(out, DEFAULT_TENANT),
        }
    }

    /// Ends it.
    pub(crate) fn end(&self, out: &mut Vec<u8>, batch: &OpenBatch) {
        let count = array(batch.events);
        out[batch.count_at..batch.count_at + count.len()].copy_from_slice(&count);
        put_uint(out, u64::from(self.dp_rank));
    }

    fn template(&self, event: &PublishedEvent<'_>) -> &EventTemplate {
        let (PublishedEvent::Key(NamedKeyEvent { medium, .. }) | PublishedEvent::Cleared(medium)) =
            event;
        let [memory, disk] = &self.templates;
        let of_medium = match medium {
            Medium::Memory => memory,
            Medium::Disk => disk,
        };
        match event {
            PublishedEvent::Cleared(_) => &of_medium.cleared,
            PublishedEvent::Key(event) => match event.change {
                KeyChange::Stored => &of_medium.stored,
                KeyChange::Removed => &of_medium.removed,
            },
        }
    }

    fn put_key(&self, out: &mut Vec<u8>, event: &NamedKeyEvent<'_>) {
        put_text(out, &event.tenant);
        out.extend_from_slice(GROUP_ID);
        match &event.group {
            Some(group) => put_text(out, group),
            None => out.push(NIL),
        }
        if self.has_object_key {
            out.extend_from_slice(OBJECT_KEY);
            put_text(out, &event.key);
        }
        out.extend_from_slice(SIZE);
        put_uint(out, event.payload_bytes);
        put_hashes(out, SEQ_HASHES, event.hash);
        if self.has_legacy_fields {
            put_hashes(out, BLOCK_HASHES, event.hash);
        }
    }
}

fn put_hashes(out: &mut Vec<u8>, name: &[u8], hash: Option<u64>) {
    out.extend_from_slice(name);
    out.push(short_array(u8::from(hash.is_some())));
    if let Some(hash) = hash {
        put_uint(out, hash);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::samples;
    use perigee_master::KeyEvent;
    use perigee_schemas::TenantId;
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
        EventSettings { has_object_key, has_legacy_fields, ..samples::settings() }
    }

    fn event<'a>(change: KeyChange, key: &'a str, group: Option<&'a str>) -> PublishedEvent<'a> {
        event_in(Medium::Memory, change, key, group)
    }

    fn event_in<'a>(
        medium: Medium,
        change: KeyChange,
        key: &'a str,
        group: Option<&'a str>,
    ) -> PublishedEvent<'a> {
        let (key, group) = (key.as_bytes(), group.map(str::as_bytes));
        let event = KeyEvent { change, medium, key, payload_bytes: 4096, group };
        PublishedEvent::Key(NamedKeyEvent::of(event))
    }

    /// A batch whose events are numbered from 7.
    fn encoded(settings: &EventSettings, events: &[PublishedEvent<'_>]) -> Vec<u8> {
        let mut encoder = BatchEncoder::new(settings);
        encoder.set_time(1_000);
        let mut out = Vec::new();
        let mut batch = encoder.begin(&mut out);
        for (id, event) in (7..).zip(events) {
            encoder.add(&mut out, &mut batch, event, id);
        }
        encoder.end(&mut out, &batch);
        out
    }

    fn decoded(settings: &EventSettings, event: PublishedEvent<'_>) -> BTreeMap<String, Value> {
        let bytes = encoded(settings, &[event]);
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
        let key = hash.to_string();
        let stored = event(KeyChange::Stored, &key, Some("prefix"));
        let map = decoded(&settings(true, true), stored.clone());
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
        for event in [removed.clone(), PublishedEvent::Cleared(Medium::Disk)] {
            let bytes = encoded(&named, &[event]);
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
        let key = red.stored("17");
        let stored = event(KeyChange::Stored, &key, Some(&group));
        let map = decoded(&settings(true, false), stored.clone());
        let shown = ["tenant_id", "object_key", "group_id", "seq_hashes"].map(|name| &map[name]);
        let hashes = Value::List(vec![Value::Unsigned(17)]);
        assert_eq!(shown, [&text("red"), &text("17"), &text("prefix"), &hashes]);
    }

    #[test]
    fn a_removed_key_has_no_parent_and_switches_leave_fields_out() {
        let removed = event(KeyChange::Removed, "page_0_k", None);
        let map = decoded(&settings(false, false), removed.clone());
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
            stored.clone(),
            PublishedEvent::Cleared(Medium::Memory),
            removed.clone(),
            stored.clone(),
        ];
        for (has_object_key, has_legacy_fields) in
            [(false, false), (false, true), (true, false), (true, true)]
        {
            let bytes = encoded(&settings(has_object_key, has_legacy_fields), &kinds);
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
            let of = |change| event_in(medium, change, "7", None);
            let (stored, removed) = (of(KeyChange::Stored), of(KeyChange::Removed));
            for event in [stored.clone(), removed.clone(), PublishedEvent::Cleared(medium)] {
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
