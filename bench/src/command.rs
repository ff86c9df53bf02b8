//! `perigee bench TOOL`: which tool was asked for. Invariant: the overview and the dispatch read
//! one table.

use std::fmt::Write as _;

use perigee_flags::{ProcessEnvironment, nearest};

use crate::error::BenchError;
use crate::run::{Output, Tool};
use crate::{compare, disk, engine, machine, master, nic, policy, store, trace};

const TOOLS: &[&Tool] = &[
    &nic::TOOL,
    &store::TOOL,
    &disk::TOOL,
    &engine::TOOL,
    &master::TOOL,
    &trace::TOOL,
    &policy::TOOL,
    &machine::TOOL,
    &compare::TOOL,
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
    environment: &ProcessEnvironment,
    output: Output<'_>,
) -> Result<(), BenchError> {
    let Some((word, rest)) = arguments.split_first() else {
        let text = format!("No tool; write perigee bench with one of {}", names());
        return Err(BenchError::conflict(text));
    };
    if matches!(word.as_str(), "help" | "--help" | "-help" | "-h") {
        return Ok(output(&overview())?);
    }
    match TOOLS.iter().find(|tool| tool.name == word) {
        Some(tool) => tool.start(rest, environment, output),
        None => Err(unknown(word)),
    }
}

fn names() -> String {
    let names: Vec<&str> = TOOLS.iter().map(|tool| tool.name).collect();
    names.join(", ")
}

fn unknown(word: &str) -> BenchError {
    let shown: String = word.escape_debug().take(80).collect();
    let hint = match nearest(word, TOOLS.iter().map(|tool| tool.name)) {
        Some(name) => format!("did you mean `{name}`?"),
        None => format!("there are {}", names()),
    };
    BenchError::conflict(format!("Unknown tool `{shown}`; {hint}"))
}

fn overview() -> String {
    let mut text = String::from("perigee bench: measures and compares\n\n");
    text.push_str(EXAMPLES);
    text.push_str("Tools:\n");
    for tool in TOOLS {
        let _ = writeln!(text, "  {:<9}{}", tool.name, tool.program.summary);
    }
    text.push_str(EXIT_CODES);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(words: &[&str]) -> BenchError {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        execute(&words, &ProcessEnvironment::of(&[]), &mut |_| Ok(())).unwrap_err()
    }

    fn printed(words: &[&str]) -> String {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let mut text = String::new();
        let mut output = |part: &str| {
            text.push_str(part);
            Ok(())
        };
        execute(&words, &ProcessEnvironment::of(&[]), &mut output).unwrap();
        text
    }

    #[test]
    fn the_overview_names_every_tool_and_fits_a_terminal() {
        let text = printed(&["--help"]);
        for tool in TOOLS {
            assert!(text.contains(&format!("\n  {} ", tool.name)), "{text}");
        }
        assert!(text.lines().all(|line| line.len() <= 80), "{text}");
        assert!(text.lines().count() <= 60);
    }

    #[test]
    fn every_tool_has_a_sound_table_and_a_help_text_that_fits_a_terminal() {
        for tool in TOOLS {
            assert_eq!(tool.program.check(), Vec::<String>::new(), "{}", tool.name);
            assert_eq!(
                tool.program.name,
                format!("perigee bench {}", tool.name),
                "the page of flags needs the name"
            );
            let text = printed(&[tool.name, "--help"]);
            assert!(text.lines().all(|line| line.len() <= 80), "{text}");
            assert!(text.lines().count() <= 60, "{}", tool.name);
            let examples = text.find("Examples:").unwrap();
            assert!(examples < text.find("Output:").unwrap(), "{text}");
        }
    }

    #[test]
    fn a_slip_gets_a_suggestion() {
        assert!(error(&["nik"]).to_string().contains("`nic`"));
        assert!(error(&["xyzzyxyzzy"]).to_string().contains("there are nic"));
        assert!(error(&[]).to_string().contains("No tool"));
        assert_eq!(error(&[]).exit_code(), 2);
    }
}
