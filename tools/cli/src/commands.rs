//! The table of commands. Invariant: the overview, the multi-call names and the dispatch all read
//! this table.

use crate::failure::Failure;
use crate::invocation::{Action, Invocation};
use crate::{
    agent, bench, bundle, check, daemon, doctor, drain, inspect, output, status, top, topology,
    trace,
};
use perigee_agent::has_probes;
use perigee_flags::{MOONCAKE_VERSION, ProcessEnvironment, nearest};
use std::fmt::Write as _;

/// One command of the program.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Command {
    /// The word after `perigee`.
    pub(crate) name: &'static str,
    /// Mooncake's program of the same kind, if there is one.
    pub(crate) personality: Option<&'static str>,
    /// What it does, for the overview.
    summary: &'static str,
    kind: CommandKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CommandKind {
    Master,
    Node,
    Metadata,
    Status,
    Drain,
    Inspect,
    Topology,
    Agent,
    Top,
    Trace,
    Doctor,
    Check,
    Bundle,
    Bench,
}

/// All commands, in the order of the overview.
pub(crate) const COMMANDS: &[Command] = &[
    Command {
        name: "master",
        personality: Some("mooncake_master"),
        summary: "Serve metadata, placement, leases and eviction of a cluster",
        kind: CommandKind::Master,
    },
    Command {
        name: "node",
        personality: Some("mooncake_client"),
        summary: "Donate memory of this host to a cluster",
        kind: CommandKind::Node,
    },
    Command {
        name: "metadata",
        personality: Some("mooncake_http_metadata_server"),
        summary: "Serve records of transfer engines over HTTP",
        kind: CommandKind::Metadata,
    },
    Command {
        name: "status",
        personality: None,
        summary: "Show the segments of a cluster and how full they are",
        kind: CommandKind::Status,
    },
    Command {
        name: "drain",
        personality: None,
        summary: "Move all objects out of this host's or pod's segments before it stops",
        kind: CommandKind::Drain,
    },
    Command {
        name: "inspect",
        personality: None,
        summary: "Show why a key is where it is, or gone; also built-in limits and metrics",
        kind: CommandKind::Inspect,
    },
    Command {
        name: "topology",
        personality: Some(topology::DUMP_NAME),
        summary: "Show NICs, GPUs and who serves which memory",
        kind: CommandKind::Topology,
    },
    Command {
        name: "agent",
        personality: None,
        summary: "Show NICs, disks and shards of this host: metrics and a page",
        kind: CommandKind::Agent,
    },
    Command {
        name: "top",
        personality: None,
        summary: "Watch NICs, links, flows, disks and shards of this host in a terminal",
        kind: CommandKind::Top,
    },
    Command {
        name: "trace",
        personality: None,
        summary: "Show where the time of one request went, through client, master and nodes",
        kind: CommandKind::Trace,
    },
    Command {
        name: "doctor",
        personality: None,
        summary: "Find what is misconfigured on this host and say what to do",
        kind: CommandKind::Doctor,
    },
    Command {
        name: "check",
        personality: None,
        summary: "Measure every link between hosts and name who is at fault",
        kind: CommandKind::Check,
    },
    Command {
        name: "bundle",
        personality: None,
        summary: "Collect diagnostics of a problem into one archive to send",
        kind: CommandKind::Bundle,
    },
    Command {
        name: "bench",
        personality: Some(bench::TRANSFER_ENGINE_BENCH),
        summary: "Measure network cards, stores and masters",
        kind: CommandKind::Bench,
    },
];

const VARIABLES: &str = "\
PERIGEE_LOG=perigee_store=debug,info filters logs; PERIGEE_LOG_FORMAT=json writes JSON.

";

const EXIT_CODES: &str = "\
Exit codes:
  0   done; for a server: ended by SIGTERM or SIGINT
  1   perigee doctor, perigee check: something does not work; perigee trace: not found
  2   a setting is wrong; the message says which and what to write
  3   perigee doctor, perigee check: something works less well than it could
  64  no such command, or an argument the cluster refused
  65  an answer that is no master's: another port of it, or another program
  69  a port is taken, or the master does not answer
  70  a defect of this program or a refusal of the system; wrong bytes in a bench
  75  try again later: no answer in time, or no room
  76  the master speaks another protocol version
  130 a signal ended a bench before its time
";

/// Does what was asked for.
pub(crate) fn execute(
    invocation: &Invocation,
    environment: &ProcessEnvironment,
) -> Result<(), Failure> {
    match &invocation.task {
        Action::Help => Ok(output::print(&overview())?),
        Action::Version => Ok(output::print(&version(&invocation.program))?),
        Action::Nothing => Err(Failure::NoCommand),
        Action::Unknown(word) => Err(unknown(word)),
        Action::Run(command) => run(command, invocation, environment),
    }
}

/// Text of `perigee --version`.
fn version(program: &str) -> String {
    let probes = if has_probes() { "with" } else { "without" };
    let version = env!("CARGO_PKG_VERSION");
    format!(
        "{program} {version} (compatible with Mooncake {MOONCAKE_VERSION}, {probes} eBPF probes)\n"
    )
}

fn run(
    command: &Command,
    invocation: &Invocation,
    environment: &ProcessEnvironment,
) -> Result<(), Failure> {
    match command.kind {
        CommandKind::Master => daemon::master(invocation, environment),
        CommandKind::Node => daemon::node(invocation, environment),
        CommandKind::Metadata => daemon::metadata(invocation, environment),
        CommandKind::Status => status::run(invocation, environment),
        CommandKind::Drain => drain::run(invocation, environment),
        CommandKind::Inspect => inspect::run(invocation, environment),
        CommandKind::Bench => bench::run(invocation, environment),
        CommandKind::Topology => topology::run(invocation, environment),
        CommandKind::Agent => agent::run(invocation, environment),
        CommandKind::Top => top::run(invocation, environment),
        CommandKind::Trace => trace::run(invocation, environment),
        CommandKind::Doctor => doctor::run(invocation, environment),
        CommandKind::Bundle => bundle::run(invocation, environment),
        CommandKind::Check => check::run(invocation, environment),
    }
}

fn unknown(word: &str) -> Failure {
    let names = COMMANDS.iter().map(|command| command.name);
    Failure::UnknownCommand {
        written: word.chars().take(80).collect(),
        suggestion: nearest(word, names.chain(["help", "version"])),
    }
}

/// Text of `perigee --help`.
fn overview() -> String {
    let mut text = format!(
        "perigee {}: a distributed KV-cache store for LLM inference\n\n\
         Usage: perigee COMMAND [--name=value ...]\n\nCommands:\n",
        env!("CARGO_PKG_VERSION")
    );
    for command in COMMANDS {
        let also =
            command.personality.map_or_else(String::new, |name| format!(" (also as {name})"));
        let _ = writeln!(text, "  {:<10}{}{also}", command.name, command.summary);
    }
    text.push_str("  help      Show this text, or the settings of one command\n");
    text.push_str("  version   Show the version\n\n");
    text.push_str("perigee COMMAND --help lists the settings of a command.\n");
    text.push_str(VARIABLES);
    text.push_str(EXIT_CODES);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_overview_names_every_command_and_personality() {
        let text = overview();
        for command in COMMANDS {
            assert!(text.contains(&format!("\n  {} ", command.name)), "{text}");
            if let Some(name) = command.personality {
                assert!(text.contains(name), "{name}");
            }
        }
    }

    #[test]
    fn lines_of_the_overview_fit_a_terminal() {
        for line in overview().lines() {
            assert!(line.chars().count() <= 100, "{line}");
        }
    }

    #[test]
    fn a_slip_gets_a_suggestion_and_noise_gets_none() {
        let text = unknown("mastr").to_string();
        assert!(text.contains("did you mean `master`?"), "{text}");
        let text = unknown("xyzzyxyzzy").to_string();
        assert!(!text.contains("did you mean"), "{text}");
    }
}
