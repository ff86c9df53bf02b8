//! Settings of published KV events. Invariant: publishing never delays a call.

use perigee_flags::{Flag, ValueKind};

const OF_EACH_KEY: &str = "each event has the tenant of its key";

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
    )
    .own(),
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
        "Events of one shard that wait to be published; the oldest go when there are more, or when \
         they take more than 64 MiB. 0 means any number",
    ),
    Flag::new(
        "kv_events_model_name",
        ValueKind::Text,
        "",
        "Model whose blocks are kept here, in every event; Mooncake's conductor needs it",
    ),
    Flag::new("kv_events_tenant_id", ValueKind::Text, "default", "Tenant").ignored(OF_EACH_KEY),
    Flag::new(
        "kv_events_additional_salt",
        ValueKind::Text,
        "",
        "What separates the hashes of this cache from others of its model, in every event",
    ),
    Flag::new(
        "kv_events_lora_name",
        ValueKind::Text,
        "",
        "LoRA adapter of the model, in every event",
    ),
    Flag::new(
        "kv_events_block_size",
        ValueKind::Uint32,
        "0",
        "Tokens of a block, in every event; Mooncake's conductor needs it. 0: nil",
    ),
    Flag::new("kv_events_dp_rank", ValueKind::Uint32, "0", "Data-parallel rank in every event"),
];
