//! `perigee trace`: where the time of one request went, as the agents of its hosts have kept it.
//! Invariant: agents that do not answer are named, and hide nothing of what the others have.

mod call;
mod gather;
mod length;

use crate::asked_agent::AskedAgent;
use crate::failure::Failure;
use crate::invocation::Invocation;
use crate::limits::MASTER_PORT;
use crate::output;
use call::CallLines;
use gather::{Gathered, Wanted, gather};
use perigee_agent::{SpanEntry, TraceAnswer};
use perigee_flags::{
    Flag, FlagError, ProcessEnvironment, Program, ProgramStart, Settings, ValueKind,
};

/// Most requests that are shown of one key.
const COUNT_MAX: i128 = 64;

#[rustfmt::skip]
const FLAGS: &[Flag] = &[
    Flag::new("of", ValueKind::Text, "",
        "A key, or the 32 digits of a trace; also a word before all flags; empty lists the latest calls"),
    Flag::new("agent", ValueKind::Text, "",
        "HOST or HOST:PORT of agents, with commas; empty asks the one on this host"),
    Flag::new("cluster", ValueKind::Text, "",
        "HOST or HOST:PORT of a master's HTTP port (9003) whose agents are all asked; empty takes the one that the agent here reports to"),
    Flag::new("count", ValueKind::Int64, "1", "Requests of a key to show, the latest").within(1, COUNT_MAX),
    Flag::new("format", ValueKind::Text, "text", "text for people, json for programs").one_of(&["text", "json"]),
];

/// The command as its settings see it.
const TRACE: Program = Program {
    name: "perigee trace",
    version: env!("CARGO_PKG_VERSION"),
    summary: "shows where the time of one request went: perigee trace KEY, or perigee trace ID",
    variable_prefix: "PERIGEE_TRACE_",
    words: &[],
    tables: &[("Trace", FLAGS)],
};

/// Prints a request, or lists the latest calls.
pub(crate) fn run(
    invocation: &Invocation,
    environment: &ProcessEnvironment,
) -> Result<(), Failure> {
    let settings = match TRACE.load(&with_flag_for_word(&invocation.arguments)?, environment)? {
        ProgramStart::Print(text) => return Ok(output::print(&text)?),
        ProgramStart::Run(settings) => settings,
    };
    let (agents, cluster) = (agents(&settings), settings.optional_text("cluster"));
    let cluster = cluster.map(|master| AskedAgent::with_port(master, MASTER_PORT));
    let wanted = settings.optional_text("of").map(Wanted::read);
    let gathered = gather(agents, cluster, wanted.as_ref(), settings.integer("count"))?;
    gathered.troubles.iter().for_each(|text| output::complain(&format!("perigee trace: {text}\n")));
    if gathered.spans.is_empty() {
        return Err(nothing(&gathered, settings.text("of")));
    }
    let text = match (settings.text("format"), &wanted) {
        ("json", _) => json(gathered.spans.clone())?,
        (_, Some(_)) => trees(&gathered.spans),
        (_, None) => call::list(&gathered.spans),
    };
    output::print(&text)?;
    match wanted.is_none() || gathered.spans.iter().any(|span| span.kind == "call") {
        true => Ok(()),
        false => Err(Failure::NoCall),
    }
}

fn agents(settings: &Settings) -> Vec<AskedAgent> {
    match settings.optional_text("agent") {
        None => vec![AskedAgent::of_this_host()],
        Some(text) => {
            let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
            words.map(AskedAgent::at).collect()
        }
    }
}

/// The first word, if it is no flag, says what is wanted.
fn with_flag_for_word(arguments: &[String]) -> Result<Vec<String>, FlagError> {
    let words = arguments.iter().take_while(|word| !word.starts_with('-')).count();
    match words {
        0 => Ok(arguments.to_vec()),
        1 if arguments[0] == "help" => Ok(arguments.to_vec()),
        1 => {
            let mut flags = vec![format!("--of={}", arguments[0])];
            flags.extend_from_slice(&arguments[1..]);
            Ok(flags)
        }
        _ => Err(FlagError::Conflict(
            "More than one word; write perigee trace KEY, with quotes around a key that has blanks"
                .to_owned(),
        )),
    }
}

fn nothing(gathered: &Gathered, of: &str) -> Failure {
    let shown: String = of.escape_debug().take(80).collect();
    let what = match of {
        "" => "calls".to_owned(),
        _ => format!("spans of `{shown}`"),
    };
    Failure::NoTrace { what, agents: gathered.asked }
}

/// Each call with what lies below it, the oldest first.
fn trees(spans: &[SpanEntry]) -> String {
    let mut text = String::new();
    for trace in gather::traces(spans) {
        let calls = CallLines::of(spans, trace);
        let what = match calls.len() {
            0 => "its call is not kept".to_owned(),
            1 => "1 call".to_owned(),
            many => format!("{many} calls"),
        };
        text.push_str(&format!("trace {trace}, {what}\n"));
        calls.iter().for_each(|call| text.push_str(&call.text()));
        text.push_str(&call::alone(spans, trace));
    }
    text
}

/// The document of an agent, with the spans of all.
fn json(spans: Vec<SpanEntry>) -> Result<String, Failure> {
    let document = TraceAnswer { schema: TraceAnswer::SCHEMA, spans, ..TraceAnswer::default() };
    let text = serde_json::to_string_pretty(&document).map_err(std::io::Error::other)?;
    Ok(format!("{text}\n"))
}

#[cfg(test)]
mod tests;
