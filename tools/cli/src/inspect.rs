//! `perigee inspect`: a key of a cluster, and built-in numbers and metrics of this program.
//! Invariant: every built-in number is read from the constant that is enforced, never written down
//! a second time.

mod key;
mod metrics;

use crate::failure::Failure;
use crate::invocation::Invocation;
use crate::output;
use perigee_flags::{
    Flag, FlagError, ProcessEnvironment, Program, ProgramStart, ValueKind, nearest,
};
use serde_json::{Map, Value};
use std::time::Duration;

const TOPICS: [&str; 3] = ["limits", "metrics", KEY_TOPIC];
/// The topic that asks a master.
const KEY_TOPIC: &str = "key";

const FLAGS: &[Flag] =
    &[Flag::new("format", ValueKind::Text, "text", "text for people, json for programs")
        .one_of(&["text", "json"])];

/// The command as its settings see it.
const INSPECT: Program = Program {
    name: "perigee inspect",
    version: env!("CARGO_PKG_VERSION"),
    summary: "shows where a key lies and why it went: perigee inspect key KEY (see perigee inspect key --help); built-in numbers: perigee inspect limits, perigee inspect metrics",
    variable_prefix: "PERIGEE_INSPECT_",
    words: &[],
    tables: &[("Inspect", FLAGS)],
};

/// Prints the numbers of one topic.
pub(crate) fn run(
    invocation: &Invocation,
    environment: &ProcessEnvironment,
) -> Result<(), Failure> {
    let (topic, flags) = split_topic(&invocation.arguments);
    if topic == Some(KEY_TOPIC) {
        return key::run(flags, environment);
    }
    let settings = match INSPECT.load(flags, environment)? {
        ProgramStart::Print(text) => return Ok(output::print(&text)?),
        ProgramStart::Run(settings) => settings,
    };
    let topic = check_topic(topic)?;
    let text = match (topic, settings.text("format")) {
        ("metrics", "json") => metrics::json_text(),
        ("metrics", _) => metrics::plain_text(),
        (_, "json") => json_text(),
        _ => plain_text(),
    };
    Ok(output::print(&text)?)
}

fn split_topic(arguments: &[String]) -> (Option<&str>, &[String]) {
    match arguments.split_first() {
        Some((topic, flags)) if !topic.starts_with('-') => (Some(topic), flags),
        _ => (None, arguments),
    }
}

fn check_topic(topic: Option<&str>) -> Result<&str, FlagError> {
    match topic {
        Some(topic) if TOPICS.contains(&topic) => Ok(topic),
        Some(other) => {
            let hint = nearest(other, TOPICS).unwrap_or(TOPICS[0]);
            let shown: String = other.escape_debug().take(80).collect();
            Err(FlagError::Conflict(format!(
                "Unknown topic `{shown}`; write perigee inspect {hint}"
            )))
        }
        None => Err(FlagError::Conflict(
            "No topic; write perigee inspect key KEY, perigee inspect limits or perigee inspect metrics".to_owned(),
        )),
    }
}

/// Name, value and meaning of each limit.
fn limits() -> Vec<(&'static str, u128, &'static str)> {
    let mut all = object_limits();
    all.extend(message_limits());
    all.extend(cluster_limits());
    all.extend(http_limits());
    all
}

fn object_limits() -> Vec<(&'static str, u128, &'static str)> {
    use perigee_schemas::limits as wire;
    vec![
        ("key_bytes_max", wire::KEY_BYTES_MAX as u128, "longest key"),
        ("object_bytes_max", wire::OBJECT_BYTES_MAX.into(), "largest object"),
        ("replicas_max", wire::REPLICAS_MAX as u128, "most copies of one object"),
        ("batch_keys_max", wire::BATCH_KEYS_MAX as u128, "most keys of one batch call"),
        ("pattern_bytes_max", wire::PATTERN_BYTES_MAX as u128, "longest regular expression"),
    ]
}

fn message_limits() -> Vec<(&'static str, u128, &'static str)> {
    use perigee_schemas::limits as wire;
    vec![
        ("protocol_min", wire::PROTOCOL_MIN.into(), "oldest protocol version spoken"),
        ("protocol_max", wire::PROTOCOL_MAX.into(), "newest protocol version spoken"),
        ("frame_body_bytes_max", wire::FRAME_BODY_BYTES_MAX as u128, "largest message"),
        ("slice_payload_bytes_max", wire::SLICE_PAYLOAD_BYTES_MAX.into(), "largest data request"),
        ("slice_pieces_max", wire::SLICE_PIECES_MAX as u128, "most pieces of a data request"),
        ("call_deadline_ms", ms(perigee_rpc::CALL_DEADLINE), "longest call to the master"),
    ]
}

fn cluster_limits() -> Vec<(&'static str, u128, &'static str)> {
    let shards = perigee_service::config::table::RPC_SHARDS_MAX.unsigned_abs();
    let segment = perigee_node::limits::SEGMENT_BYTES_MAX.unsigned_abs();
    let memlock = u128::from(perigee_shard::MEMLOCK_BYTES_MIN);
    vec![
        ("segments_max", perigee_master::limits::SEGMENTS_MAX as u128, "most mounted segments"),
        ("clients_max", perigee_master::limits::CLIENTS_MAX as u128, "most clients of a master"),
        ("rpc_shards_max", shards, "most executors of a master"),
        ("node_segment_bytes_max", segment, "most memory one node donates"),
        ("memlock_bytes_min", memlock, "least locked memory (ulimit -l) an executor needs"),
    ]
}

fn http_limits() -> Vec<(&'static str, u128, &'static str)> {
    use perigee_http::limits as http;
    use perigee_metadata::limits as metadata;
    vec![
        ("http_connections_max", http::CONNECTIONS_MAX as u128, "open HTTP connections"),
        ("http_body_bytes_max", http::BODY_BYTES_MAX as u128, "largest HTTP request body"),
        ("http_request_timeout_ms", ms(http::REQUEST_TIMEOUT), "longest HTTP request"),
        ("metadata_records_max", metadata::RECORDS_MAX as u128, "records of a metadata service"),
        ("metadata_bytes_max", metadata::TOTAL_BYTES_MAX as u128, "bytes of all those records"),
    ]
}

fn ms(duration: Duration) -> u128 {
    duration.as_millis()
}

fn plain_text() -> String {
    let line = |(name, value, meaning)| format!("{name:<26}{value:>16}  {meaning}\n");
    limits().into_iter().map(line).collect()
}

fn json_text() -> String {
    let number = |(name, value, _): (&str, u128, _)| {
        let value = u64::try_from(value).unwrap_or(u64::MAX);
        (name.to_owned(), Value::from(value))
    };
    let document: Map<String, Value> = limits().into_iter().map(number).collect();
    format!("{:#}\n", Value::Object(document))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn table_is_sound_and_names_are_unique() {
        assert_eq!(INSPECT.check(), Vec::<String>::new());
        let names: BTreeSet<_> = limits().into_iter().map(|(name, ..)| name).collect();
        assert_eq!(names.len(), limits().len());
    }

    #[test]
    fn text_and_json_show_the_enforced_number() {
        let document: Value = json_text().parse().unwrap();
        assert_eq!(document["key_bytes_max"], perigee_schemas::limits::KEY_BYTES_MAX);
        assert!(plain_text().contains("key_bytes_max"));
    }

    #[test]
    fn topics_are_checked() {
        for topic in TOPICS {
            assert_eq!(check_topic(Some(topic)), Ok(topic));
        }
        assert!(check_topic(Some("limit")).unwrap_err().to_string().contains("inspect limits"));
        assert!(check_topic(None).is_err());
    }
}
