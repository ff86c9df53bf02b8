//! Settings of published KV events. Invariant: publishing never delays a call.

use perigee_flags::{Flag, ValueKind};

const NOT_EMITTED: &str = "it is not part of an event any more";

pub(super) const FLAGS: &[Flag] = &[
    Flag::new(
        "enable_kv_events",
        ValueKind::Bool,
        "false",
        "Publish which keys are stored and removed, to ZeroMQ subscribers",
    ),
    Flag::new(
        "kv_events_bind_endpoint",
        ValueKind::Text,
        "",
        "Where subscribers connect: tcp://HOST:PORT, tcp://*:PORT or ipc://PATH",
    ),
    Flag::new(
        "kv_events_replay_endpoint",
        ValueKind::Text,
        "",
        "Where consumers ask for events that they missed; empty: not offered",
    ),
    Flag::new("kv_events_backend_id", ValueKind::Text, "", "Name of this cache in every event"),
    Flag::new("kv_events_emit_object_key", ValueKind::Bool, "true", "Put the key into events"),
    Flag::new(
        "kv_events_emit_legacy_compat",
        ValueKind::Bool,
        "true",
        "Put the older field names into events",
    ),
    Flag::new(
        "kv_events_queue_capacity",
        ValueKind::Uint32,
        "65536",
        "Events of one shard that wait to be published; the oldest go when there are more. 0 means \
         no bound",
    ),
    Flag::new("kv_events_model_name", ValueKind::Text, "", "Model name").deprecated(NOT_EMITTED),
    Flag::new("kv_events_tenant_id", ValueKind::Text, "default", "Tenant").deprecated(NOT_EMITTED),
    Flag::new("kv_events_additional_salt", ValueKind::Text, "", "Salt").deprecated(NOT_EMITTED),
    Flag::new("kv_events_lora_name", ValueKind::Text, "", "LoRA name").deprecated(NOT_EMITTED),
    Flag::new("kv_events_block_size", ValueKind::Uint32, "0", "Block size").deprecated(NOT_EMITTED),
    Flag::new("kv_events_dp_rank", ValueKind::Uint32, "0", "Data-parallel rank")
        .deprecated(NOT_EMITTED),
];
