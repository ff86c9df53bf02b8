//! What all events of one kind have in common, in msgpack: whole fields, then the name of the time,
//! whose value is that of the batch.
//! Invariant: the length of the map is that of the fields that the template and its writer have.

use crate::msgpack::{NIL, long, put_map, put_text, put_uint};
use crate::settings::EventSettings;
use perigee_master::{KeyChange, Medium};

/// Fields that an encoder writes behind the template of every event: its number and its tenant.
const VARYING: usize = 2;
/// And behind that of a key: the group, the size and the hashes.
const VARYING_OF_KEY: usize = 3;

/// The beginning of each event of one kind.
#[derive(Debug)]
pub(crate) struct EventTemplate(Vec<u8>);

/// A value that is the same in all events of one kind.
#[derive(Clone, Copy)]
enum Constant<'a> {
    Nil,
    Number(u32),
    Text(&'a str),
}

impl<'a> Constant<'a> {
    fn text(text: Option<&'a String>) -> Self {
        text.map_or(Self::Nil, |text| Self::Text(text))
    }
}

impl EventTemplate {
    pub(crate) fn of_key(settings: &EventSettings, change: KeyChange, medium: Medium) -> Self {
        let is_stored = change == KeyChange::Stored;
        let (name, older) = match change {
            KeyChange::Stored => ("stored", "BlockStored"),
            KeyChange::Removed => ("removed", "BlockRemoved"),
        };
        // A stored block needs its depth or its parent: keys stand alone, at depth 0.
        let depth = if is_stored { Constant::Number(0) } else { Constant::Nil };
        let mut more = vec![("base_block_idx", depth)];
        if is_stored {
            more.extend([("parent_hash", Constant::Nil), ("token_ids", Constant::Nil)]);
        }
        if is_stored && settings.has_legacy_fields {
            more.push(("parent_block_hash", Constant::Nil));
        }
        let switched =
            usize::from(settings.has_object_key) + usize::from(settings.has_legacy_fields);
        let varying = VARYING + VARYING_OF_KEY + switched;
        Self::new(settings, [name, older], medium, &more, varying)
    }

    pub(crate) fn cleared(settings: &EventSettings, medium: Medium) -> Self {
        Self::new(settings, ["cleared", "AllBlocksCleared"], medium, &[], VARYING)
    }

    fn new(
        settings: &EventSettings,
        [name, older]: [&str; 2],
        medium: Medium,
        more: &[(&str, Constant<'_>)],
        varying: usize,
    ) -> Self {
        let mut fields = vec![("event_type", Constant::Text(name))];
        if settings.has_legacy_fields {
            fields.push(("type", Constant::Text(older)));
        }
        fields.extend([
            ("model_name", Constant::text(settings.model_name.as_ref())),
            ("block_size", settings.block_size.map_or(Constant::Nil, Constant::Number)),
            ("additional_salt", Constant::text(settings.additional_salt.as_ref())),
            ("lora_name", Constant::text(settings.lora_name.as_ref())),
            ("backend_id", Constant::Text(&settings.backend_id)),
            ("medium", Constant::Text(medium.name())),
            ("dp_rank", Constant::Number(settings.dp_rank)),
        ]);
        fields.extend_from_slice(more);
        let mut out = Vec::new();
        // Beside these, the time.
        put_map(&mut out, (fields.len() + 1 + varying) as u16);
        put_constants(&mut out, &fields);
        put_text(&mut out, "timestamp");
        out.extend_from_slice(&long(0));
        Self(out)
    }

    /// From now on events have this time.
    pub(crate) fn set_time(&mut self, time_ms: u64) {
        let time = long(time_ms);
        if let Some(last) = self.0.last_chunk_mut() {
            *last = time;
        }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

fn put_constants(out: &mut Vec<u8>, fields: &[(&str, Constant<'_>)]) {
    for (name, value) in fields {
        put_text(out, name);
        match value {
            Constant::Nil => out.push(NIL),
            Constant::Number(number) => put_uint(out, u64::from(*number)),
            Constant::Text(text) => put_text(out, text),
        }
    }
}
