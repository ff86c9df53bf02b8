//! `perigee inspect key KEY`: where a key lies, what keeps it there, and why replicas of it went.
//! Invariant: looking takes no lease and changes nothing.

use crate::failure::Failure;
use crate::http_answer::http_answer;
use crate::limits::{MASTER_ANSWER_BYTES_MAX, STATUS_TIMEOUT_MS_MAX};
use crate::output;
use crate::size::size_text;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use perigee_admin::key_report::{KeyReport, ReportedDeparture, ReportedObject, ReportedReplica};
use perigee_flags::{
    Flag, FlagError, ProcessEnvironment, Program, ProgramStart, Settings, ValueKind,
};
use serde::Deserialize as _;
use serde_json::Value;
use std::fmt::Write as _;
use std::time::Duration;

#[rustfmt::skip]
const FLAGS: &[Flag] = &[
    Flag::new("key", ValueKind::Text, "", "The key; also a word before all flags"),
    Flag::new("tenant_id", ValueKind::Text, "", "The tenant of the key; empty for the default one"),
    Flag::new("master_server_address", ValueKind::Text, "127.0.0.1:50051", "HOST:PORT of the master")
        .aliases(&["master"]).variables(&["MOONCAKE_MASTER"]),
    Flag::new("metrics_port", ValueKind::Int32, "9003", "HTTP port of the master").within(1, 65_535),
    Flag::new("timeout", ValueKind::DurationMs, "5s", "Longest wait for the master's answer").within(1, STATUS_TIMEOUT_MS_MAX),
    Flag::new("format", ValueKind::Text, "text", "text for people, json for programs").one_of(&["text", "json"]),
];

/// The command as its settings see it.
const KEY: Program = Program {
    name: "perigee inspect key",
    version: env!("CARGO_PKG_VERSION"),
    summary: "shows where a key lies, what keeps it there, and why replicas of it went: perigee inspect key KEY",
    variable_prefix: "PERIGEE_INSPECT_KEY_",
    words: &[],
    tables: &[("Key", FLAGS)],
};

/// Asks the master about a key and prints its answer.
pub(super) fn run(arguments: &[String], environment: &ProcessEnvironment) -> Result<(), Failure> {
    let settings = match KEY.load(&with_flag_for_key(arguments)?, environment)? {
        ProgramStart::Print(text) => return Ok(output::print(&text)?),
        ProgramStart::Run(settings) => settings,
    };
    let key = settings.text("key");
    if key.is_empty() {
        return Err(FlagError::Conflict("No key; write perigee inspect key KEY".to_owned()).into());
    }
    let answer = ask(&settings, key)?;
    if settings.text("format") == "json" {
        return Ok(output::print(&format!("{answer:#}\n"))?);
    }
    let report = KeyReport::deserialize(&answer).map_err(std::io::Error::other)?;
    Ok(output::print(&text(key, &report))?)
}

/// The first word, if it is no flag, is the key.
fn with_flag_for_key(arguments: &[String]) -> Result<Vec<String>, FlagError> {
    let words = arguments.iter().take_while(|word| !word.starts_with('-')).count();
    match words {
        0 => Ok(arguments.to_vec()),
        1 => {
            let key = format!("--key={}", arguments[0]);
            Ok(std::iter::once(key).chain(arguments[1..].iter().cloned()).collect())
        }
        _ => Err(FlagError::Conflict(
            "More than one key; write quotes around a key that has blanks".to_owned(),
        )),
    }
}

fn ask(settings: &Settings, key: &str) -> Result<Value, Failure> {
    let master = settings.text("master_server_address");
    let host = master.rsplit_once(':').map_or(master, |(host, _)| host);
    let port: u16 = settings.integer("metrics_port");
    let encoded = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
    let mut url = format!("http://{host}:{port}/api/v1/keys/inspect?key={}", encoded(key));
    if let Some(tenant) = settings.optional_text("tenant_id") {
        let _ = write!(url, "&tenant_id={}", encoded(tenant));
    }
    let deadline = Duration::from_millis(settings.integer("timeout"));
    let answer = http_answer(&url, deadline, MASTER_ANSWER_BYTES_MAX);
    let document = answer.and_then(|body| body.parse().map_err(|_| "it is no JSON".to_owned()));
    document.map_err(|reason| Failure::NoKeyReport { address: format!("{host}:{port}"), reason })
}

fn text(key: &str, report: &KeyReport) -> String {
    let shown: String = key.escape_debug().take(200).collect();
    let mut text = format!("key {shown} (shard {})\n", report.shard);
    match &report.object {
        Some(object) => text += &object_text(object),
        None => text += "  cannot be read\n",
    }
    if report.unfinished_puts > 0 {
        let _ = writeln!(text, "  {} puts of it have begun and not ended", report.unfinished_puts);
    }
    report.departures.iter().for_each(|went| text += &departure_text(went));
    if report.departures.is_empty() {
        text += "  no replica of it has gone since the master started\n";
    }
    if let Some(reach_ms) = report.departures_reach_ms {
        let _ = writeln!(text, "  what went more than {} ago is forgotten", length(reach_ms));
    }
    text
}

fn object_text(object: &ReportedObject) -> String {
    let mut facts = vec![if object.was_read { "was read" } else { "was never read" }.to_owned()];
    facts.push(format!("not touched for {}", length(object.idle_ms)));
    facts.extend((object.lease_ms > 0).then(|| format!("leased for {}", length(object.lease_ms))));
    facts.extend(object.hard_pin.then(|| "pinned hard".to_owned()));
    facts.extend(object.soft_pin_ms.map(|ms| format!("pinned softly for {}", length(ms))));
    facts.extend(object.group.as_ref().map(|group| format!("in group {}", group.escape_debug())));
    facts.push(format!("CRC-32C {}", object.crc32c));
    facts.extend(object.writer.as_ref().map(|writer| format!("written by client {writer}")));
    let mut text = format!("  {}\n", facts.join(", "));
    object.replicas.iter().for_each(|replica| text += &replica_text(replica));
    text
}

fn replica_text(replica: &ReportedReplica) -> String {
    format!(
        "  {:<6}  {:>10}  {} at {}: {}\n",
        replica.medium,
        size_text(replica.payload_bytes),
        replica.segment,
        replica.endpoint,
        replica.standing
    )
}

fn departure_text(went: &ReportedDeparture) -> String {
    let read = if went.was_read { "read before" } else { "never read" };
    let left = match went.replicas_left {
        0 => "nothing was left".to_owned(),
        1 => "1 replica was left".to_owned(),
        left => format!("{left} replicas were left"),
    };
    let no_copy = went.no_copy.as_ref().map_or_else(String::new, |why| format!("; {why}"));
    format!(
        "  gone    {:>10}  {} ago from {}, {}: {read}, not touched for {}; {left}{no_copy}\n",
        size_text(went.payload_bytes),
        length(went.ago_ms),
        went.medium,
        went.reason,
        length(went.idle_ms),
    )
}

/// Such as `850 ms`, `12.3 s`, `4 min 5 s` or `3 h 12 min`.
fn length(ms: u64) -> String {
    let seconds = ms / 1000;
    match seconds {
        0 => format!("{ms} ms"),
        1..60 => format!("{seconds}.{} s", ms % 1000 / 100),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
    }
}

#[cfg(test)]
mod tests;
