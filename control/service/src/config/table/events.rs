//! Settings of published KV events. Invariant: publishing never delays a call.

use perigee_flags::{Flag, Kind};

const FEATURE: &str = "KV events";
const NOT_EMITTED: &str = "it is not part of an event any more";

pub(super) const FLAGS: &[Flag] = &[
    Flag::new(
        "enable_kv_events",
        Kind::Bool,
        "false",
        "Publish stored and removed keys",
    )
    .not_built(FEATURE),
    Flag::new(
        "kv_events_bind_endpoint",
        Kind::Text,
        "",
        "Endpoint that subscribers connect to",
    )
    .not_built(FEATURE),
    Flag::new(
        "kv_events_backend_id",
        Kind::Text,
        "",
        "Owner named in every event",
    )
    .not_built(FEATURE),
    Flag::new(
        "kv_events_emit_object_key",
        Kind::Bool,
        "true",
        "Put the key into events",
    )
    .not_built(FEATURE),
    Flag::new(
        "kv_events_emit_legacy_compat",
        Kind::Bool,
        "true",
        "Put the older field names into events",
    )
    .not_built(FEATURE),
    Flag::new(
        "kv_events_queue_capacity",
        Kind::Uint32,
        "65536",
        "Events kept for slow subscribers",
    )
    .not_built(FEATURE),
    Flag::new("kv_events_model_name", Kind::Text, "", "Model name").deprecated(NOT_EMITTED),
    Flag::new("kv_events_tenant_id", Kind::Text, "default", "Tenant").deprecated(NOT_EMITTED),
    Flag::new("kv_events_additional_salt", Kind::Text, "", "Salt").deprecated(NOT_EMITTED),
    Flag::new("kv_events_lora_name", Kind::Text, "", "LoRA name").deprecated(NOT_EMITTED),
    Flag::new("kv_events_block_size", Kind::Uint32, "0", "Block size").deprecated(NOT_EMITTED),
    Flag::new("kv_events_dp_rank", Kind::Uint32, "0", "Data-parallel rank").deprecated(NOT_EMITTED),
];
