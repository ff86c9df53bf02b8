//! `perigee bench TOOL`: which tool was asked for. Invariant: the overview and the dispatch read one table.

use std::fmt::Write as _;
use std::io;

use perigee_flags::{Environment, nearest};

use crate::error::BenchError;
use crate::{compare, master, nic, store, trace};

/// Where results go; progress and complaints go to standard error.
pub type Output<'a> = &'a mut dyn FnMut(&str) -> io::Result<()>;

type Run = fn(&[String], &Environment, Output<'_>) -> Result<(), BenchError>;

const TOOLS: &[(&str, &str, Run)] = &[
    (
        "nic",
        "Bandwidth and latency between two machines, or of this one",
        nic::run,
    ),
    (
        "store",
        "put, get and exist against a cluster, or one of its own",
        store::run,
    ),
    (
        "master",
        "Metadata calls per second of a master",
        master::run,
    ),
    (
        "trace",
        "Replay of a request trace: hit rate, bandwidth, latencies",
        trace::run,
    ),
    (
        "compare",
        "Two reports side by side, with spread",
        compare::run,
    ),
];

const EXAMPLES: &str = "\
Examples:
  perigee bench nic                        # loopback; needs nothing
  perigee bench nic --all --format json > before.json
  perigee bench store --master HOST:50051
  perigee bench compare before.json after.json

";

const EXIT_CODES: &str = "
perigee bench TOOL --help lists the settings of a tool. Mooncake's own bench is
there under its name: transfer_engine_bench --help.

Exit codes:
  0    done
  2    a setting or a file is wrong; the message says which
  69   the other end cannot be reached, or went away during the run
  70   wrong bytes, a defect, or a refusal of the system
  75   the other end did not answer in time, or has no room
  76   the master speaks another protocol version
  130  ended by a signal; rows taken so far are printed
";

/// Runs the tool that the first word names.
///
/// # Errors
/// There is no such tool, or it failed; what it found so far was handed to `output`.
pub fn execute(
    arguments: &[String],
    environment: &Environment,
    output: Output<'_>,
) -> Result<(), BenchError> {
    let Some((word, rest)) = arguments.split_first() else {
        return Err(BenchError::conflict(
            "No tool; write perigee bench nic, store, master, trace or compare",
        ));
    };
    if matches!(word.as_str(), "help" | "--help" | "-help" | "-h") {
        return Ok(output(&overview())?);
    }
    match TOOLS.iter().find(|(name, ..)| name == word) {
        Some((_, _, run)) => run(rest, environment, output),
        None => Err(unknown(word)),
    }
}

fn unknown(word: &str) -> BenchError {
    let shown: String = word.escape_debug().take(80).collect();
    let names = TOOLS.iter().map(|(name, ..)| *name);
    let hint = match nearest(word, names.clone()) {
        Some(name) => format!("did you mean `{name}`?"),
        None => format!("there are {}", names.collect::<Vec<_>>().join(", ")),
    };
    BenchError::conflict(format!("Unknown tool `{shown}`; {hint}"))
}

fn overview() -> String {
    let mut text = String::from("perigee bench: measures and compares\n\n");
    text.push_str(EXAMPLES);
    text.push_str("Tools:\n");
    for (name, summary, _) in TOOLS {
        let _ = writeln!(text, "  {name:<9}{summary}");
    }
    text.push_str(EXIT_CODES);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(words: &[&str]) -> BenchError {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        execute(&words, &Environment::of(&[]), &mut |_| Ok(())).unwrap_err()
    }

    #[test]
    fn the_overview_names_every_tool_and_fits_a_terminal() {
        let text = overview();
        for (name, ..) in TOOLS {
            assert!(text.contains(&format!("\n  {name} ")), "{text}");
        }
        assert!(text.lines().all(|line| line.len() <= 80), "{text}");
        assert!(text.lines().count() <= 60);
    }

    #[test]
    fn a_slip_gets_a_suggestion() {
        assert!(error(&["nik"]).to_string().contains("`nic`"));
        assert!(error(&["xyzzyxyzzy"]).to_string().contains("there are nic"));
        assert!(error(&[]).to_string().contains("No tool"));
        assert_eq!(error(&[]).exit_code(), 2);
    }
}
