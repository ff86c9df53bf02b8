//! Keywords of `mooncake.structured_object_store`.

use super::vocabulary::{Vocabulary, WordKind};
use crate::mooncake::Entry;
use crate::mooncake::MooncakeEffect::Honoured;

const TRANSFER: &[Entry] = &[
    (&["store"], Honoured("MooncakeDistributedStore, or anything with put, get and remove")),
    (&["key_prefix"], Honoured("what all keys begin with")),
    (
        &["default_chunk_bytes", "chunk_bytes"],
        Honoured("largest object that a payload is cut into"),
    ),
    (&["buffer_pool"], Honoured("BufferPool through whose registered memory payloads go")),
    (&["meta", "buffers"], Honoured("metadata and named bytes of a bundle")),
    (&["payload", "obj", "data"], Honoured("object or batch that is put")),
    (&["partition", "namespace", "stage"], Honoured("parts of the keys of a batch")),
    (&["policy"], Honoured("a BundleTransferPolicy")),
    (&["max_inflight_put"], Honoured("threads that put chunks, in place of the policy's")),
    (&["config"], Honoured("a ReplicateConfig; its group_ids may name one group")),
    (&["type"], Honoured("dataproto for sections, dict for a flat dict")),
    (&["field_schemas"], Honoured("a FieldSchema for each field that is not to be guessed")),
    (&["overwrite"], Honoured("replaces fields that a stage has already")),
    (&["ref"], Honoured("reference to what is stored, or what export_ref made of it")),
    (&["spec"], Honoured("a StructuredObjectReadSpec")),
    (&["destinations"], Honoured("memory that members and fields are read into")),
    (&["result"], Honoured("result whose memory goes back to the pool")),
    (
        &["fields", "batch_fields", "non_tensor_fields", "meta_info_keys"],
        Honoured("what of a batch is read"),
    ),
    (&["rows"], Honoured("slice or numbers of the rows that are read; only they travel")),
    (&["data_cls"], Honoured("class that a batch is read as")),
];

const POLICY: &[Entry] = &[
    (&["max_inflight_put"], Honoured("threads that put chunks, 1 or more")),
    (&["put_mode"], Honoured("auto, batch or parallel; others are refused")),
    (&["copy_mode"], Honoured("auto, copy or zero_copy; others are refused")),
];

const SCHEMA: &[Entry] = &[
    (&["codec"], Honoured("form of the rows; auto looks at them")),
    (&["nullable"], Honoured("False refuses rows without a value")),
    (&["metadata"], Honoured("section, dtype and keys of the field")),
];

const READ_SPEC: &[Entry] = &[
    (&["ref"], Honoured("reference to what is stored")),
    (&["member_names", "names"], Honoured("members that are read")),
    (
        &["member_slices"],
        Honoured("a StructuredMemberSlice for each member of which a part is read"),
    ),
    (&["name"], Honoured("member of which a part is read")),
    (&["axis", "start", "end", "step"], Honoured("that part")),
];

const BUFFERS: &[Entry] = &[
    (&["ptr", "size"], Honoured("address and bytes of memory")),
    (&["owner"], Honoured("object that keeps the memory, and is kept as long")),
    (&["batch_size"], Honoured("rows that lie there")),
    (&["pre_registered"], Honoured("the store knows the memory, so it is not registered again")),
];

const RECORDS: &[Entry] = &[
    (&["manifest_key", "manifest"], Honoured("where a bundle's manifest lies, or the manifest")),
    (&["metadata", "buffers"], Honoured("metadata and members of an object to be put")),
    (&["objects"], Honoured("members that were read")),
    (&["stage", "member", "section"], Honoured("where a field of a batch lies")),
    (&["batch_size", "global_indexes"], Honoured("rows of a batch, and their numbers elsewhere")),
    (&["stage_refs", "field_index"], Honoured("bundles of a batch, and the fields in them")),
    (&["meta_info", "encoded_non_tensor"], Honoured("what of a batch is in its reference")),
    (&["namespace", "partition"], Honoured("parts of the keys of a batch")),
    (&["ref", "handle", "value"], Honoured("reference to a batch, in one of its two forms")),
    (&["path", "values", "leaves", "nodes"], Honoured("rows whose structure is inferred")),
];

const fn keywords(taken_by: &'static str, entries: &'static [Entry]) -> Vocabulary {
    Vocabulary { kind: WordKind::Keyword, taken_by, entries }
}

pub(super) const VOCABULARIES: &[Vocabulary] = &[
    keywords("MooncakeBundleTransfer", TRANSFER),
    keywords("BundleTransferPolicy", POLICY),
    keywords("FieldSchema", SCHEMA),
    keywords("StructuredObjectReadSpec, StructuredMemberSlice", READ_SPEC),
    keywords("tensor_object_buffer, raw_destination", BUFFERS),
    keywords("records and functions of mooncake.structured_object_store", RECORDS),
];
