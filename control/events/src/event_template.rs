//! What all events of one kind have in common, in msgpack: the bytes before each value that
//! differs.
//! Invariant: the length of the map is that of the fields that the template and its writer have.

use crate::settings::EventSettings;
use perigee_master::{KeyChange, Medium};
use rmp::encode::{ValueWriteError, write_map_len, write_str, write_uint};

/// Nil in msgpack.
pub(crate) const NIL: u8 = 0xC0;

/// The bytes before each value of an event, and those behind the last one.
#[derive(Debug)]
pub(crate) struct EventTemplate {
    pub(crate) id: Vec<u8>,
    pub(crate) time: Vec<u8>,
    pub(crate) tenant: Vec<u8>,
    /// Up to the group of a key, or to the end of an event without a key.
    pub(crate) group: Vec<u8>,
    pub(crate) object_key: Vec<u8>,
    pub(crate) size: Vec<u8>,
    pub(crate) hashes: Vec<u8>,
    pub(crate) legacy_hashes: Vec<u8>,
    pub(crate) end: Vec<u8>,
}

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
    pub(crate) fn of_key(
        settings: &EventSettings,
        change: KeyChange,
        medium: Medium,
    ) -> Result<Self, ValueWriteError> {
        let is_stored = change == KeyChange::Stored;
        let (name, older) = match change {
            KeyChange::Stored => ("stored", "BlockStored"),
            KeyChange::Removed => ("removed", "BlockRemoved"),
        };
        // A stored block needs its depth or its parent: keys stand alone, at depth 0.
        let depth = if is_stored { Constant::Number(0) } else { Constant::Nil };
        let mut end = vec![("base_block_idx", depth)];
        if is_stored {
            end.extend([("parent_hash", Constant::Nil), ("token_ids", Constant::Nil)]);
        }
        if is_stored && settings.has_legacy_fields {
            end.push(("parent_block_hash", Constant::Nil));
        }
        // The group, the size and the hashes.
        let mut varying = 3;
        varying += usize::from(settings.has_object_key) + usize::from(settings.has_legacy_fields);
        let mut template = Self::beginning(settings, [name, older], medium, varying + end.len())?;
        write_str(&mut template.group, "group_id")?;
        template.object_key = named("object_key")?;
        template.size = named("size")?;
        template.hashes = named("seq_hashes")?;
        template.legacy_hashes = named("block_hashes")?;
        template.end = constants(&end)?;
        Ok(template)
    }

    pub(crate) fn cleared(
        settings: &EventSettings,
        medium: Medium,
    ) -> Result<Self, ValueWriteError> {
        Self::beginning(settings, ["cleared", "AllBlocksCleared"], medium, 0)
    }

    /// The fields that every event has, and room for `more`.
    fn beginning(
        settings: &EventSettings,
        [name, older]: [&str; 2],
        medium: Medium,
        more: usize,
    ) -> Result<Self, ValueWriteError> {
        let mut fields = vec![("event_type", Constant::Text(name))];
        if settings.has_legacy_fields {
            fields.push(("type", Constant::Text(older)));
        }
        fields.extend([
            ("model_name", Constant::text(settings.model_name.as_ref())),
            ("block_size", settings.block_size.map_or(Constant::Nil, Constant::Number)),
            ("additional_salt", Constant::text(settings.additional_salt.as_ref())),
            ("lora_name", Constant::text(settings.lora_name.as_ref())),
        ]);
        let (mut tenant, behind) = (
            constants(&fields)?,
            [
                ("backend_id", Constant::Text(&settings.backend_id)),
                ("medium", Constant::Text(medium.name())),
                ("dp_rank", Constant::Number(settings.dp_rank)),
            ],
        );
        write_str(&mut tenant, "tenant_id")?;
        let mut id = Vec::new();
        // Beside these, its number, its time and its tenant.
        let count = 3 + fields.len() + behind.len() + more;
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        write_map_len(&mut id, count)?;
        write_str(&mut id, "event_id")?;
        let [object_key, size, hashes, legacy_hashes, end] = [const { Vec::new() }; 5];
        let (time, group) = (named("timestamp")?, constants(&behind)?);
        Ok(Self { id, time, tenant, group, object_key, size, hashes, legacy_hashes, end })
    }
}

/// The name of a field.
fn named(name: &str) -> Result<Vec<u8>, ValueWriteError> {
    let mut out = Vec::new();
    write_str(&mut out, name)?;
    Ok(out)
}

/// Whole fields.
fn constants(fields: &[(&str, Constant<'_>)]) -> Result<Vec<u8>, ValueWriteError> {
    let mut out = Vec::new();
    for (name, value) in fields {
        write_str(&mut out, name)?;
        match value {
            Constant::Nil => out.push(NIL),
            Constant::Number(number) => {
                write_uint(&mut out, u64::from(*number))?;
            }
            Constant::Text(text) => write_str(&mut out, text)?,
        }
    }
    Ok(out)
}
