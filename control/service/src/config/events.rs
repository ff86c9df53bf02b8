//! The settings of published KV events.
//! Invariant: events are published as asked for, or the start is refused with what to change.

use perigee_events::{Endpoint, EventSettings};
use perigee_flags::{FlagError, Settings};

const SWITCH: &str = "enable_kv_events";

/// Flags that have no effect without the switch.
const SWITCHED: [&str; 11] = [
    "kv_events_bind_endpoint",
    "kv_events_replay_endpoint",
    "kv_events_backend_id",
    "kv_events_model_name",
    "kv_events_block_size",
    "kv_events_additional_salt",
    "kv_events_lora_name",
    "kv_events_dp_rank",
    "kv_events_emit_object_key",
    "kv_events_emit_legacy_compat",
    "kv_events_queue_capacity",
];

/// What is to be published; `None` for nothing.
pub(super) fn event_settings(
    settings: &Settings,
    warnings: &mut Vec<String>,
) -> Result<Option<EventSettings>, FlagError> {
    if !settings.bool(SWITCH) {
        let idle: Vec<&str> = SWITCHED.into_iter().filter(|name| settings.is_given(name)).collect();
        if !idle.is_empty() {
            let idle = idle.join(", ");
            warnings.push(format!("Nothing is published, so {idle} does nothing: {SWITCH} is off"));
        }
        return Ok(None);
    }
    let needed = |name: &str, example: &str| {
        let missing = || {
            FlagError::Conflict(format!(
                "Setting `{SWITCH}` needs `{name}`; give it, for example --{name}={example}"
            ))
        };
        settings.optional_text(name).ok_or_else(missing)
    };
    let publish = needed("kv_events_bind_endpoint", "tcp://*:5557")?;
    let replay = settings.optional_text("kv_events_replay_endpoint");
    let named = |name| settings.optional_text(name).map(str::to_owned);
    Ok(Some(EventSettings {
        publish: endpoint("kv_events_bind_endpoint", publish)?,
        replay: replay.map(|text| endpoint("kv_events_replay_endpoint", text)).transpose()?,
        backend_id: needed("kv_events_backend_id", "pool-1")?.to_owned(),
        model_name: named("kv_events_model_name"),
        block_size: Some(settings.integer("kv_events_block_size")).filter(|tokens| *tokens > 0),
        additional_salt: named("kv_events_additional_salt"),
        lora_name: named("kv_events_lora_name"),
        dp_rank: settings.integer("kv_events_dp_rank"),
        has_object_key: settings.bool("kv_events_emit_object_key"),
        has_legacy_fields: settings.bool("kv_events_emit_legacy_compat"),
        queue_capacity: settings.integer::<u32>("kv_events_queue_capacity") as usize,
    }))
}

fn endpoint(name: &str, text: &str) -> Result<Endpoint, FlagError> {
    text.parse().map_err(|error| FlagError::Conflict(format!("Setting `{name}`: {error}")))
}
