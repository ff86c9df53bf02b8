//! `perigee top`: NICs, links, flows, slow batches, disks and shards of this host in a terminal, or
//! who is slow in a cluster, as its agents see it.
//! Invariant: it costs only while it is open, and leaves the terminal as it was however it ends.

mod board;
mod cluster;
mod pace;
mod rates;
mod reader;
mod screen;
mod source;
mod table;
mod watched;

use crate::asked_agent::AskedAgent;
use crate::failure::Failure;
use crate::invocation::Invocation;
use crate::limits::MASTER_PORT;
use crate::output;
use board::TopState;
use cluster::ClusterState;
use perigee_agent::Snapshot;
use perigee_flags::{Flag, ProcessEnvironment, Program, ProgramStart, ValueKind};
use source::SnapshotSource;
use std::io::IsTerminal;
use std::time::{Duration, Instant};
use watched::Watched;

/// Longest pause between two readings, in milliseconds.
const DELAY_MS_MAX: i128 = 60_000;
/// Longest wait for an agent that reads its host again, which takes it a second on a quiet host.
const NEW_READING_DEADLINE: Duration = Duration::from_secs(5);
/// Pause between two questions for that.
const NEW_READING_PAUSE: Duration = Duration::from_millis(50);
/// Largest port number.
const PORT_MAX: i128 = 65_535;

#[rustfmt::skip]
const FLAGS: &[Flag] = &[
    Flag::new("agent", ValueKind::Text, "",
        "HOST or HOST:PORT of an agent; empty asks the one on this host, and reads the host itself if there is none"),
    Flag::new("cluster", ValueKind::Text, "",
        "HOST or HOST:PORT of a master's HTTP port (9003): shows who is slow in its cluster, as the agents that report to it see it, and NIC by peer"),
    Flag::new("master_server_address", ValueKind::Text, "",
        "HOST:PORT of a master: --cluster with its host and --metrics_port").aliases(&["master"]),
    Flag::new("metrics_port", ValueKind::Int32, "9003", "HTTP port of that master").within(1, PORT_MAX),
    Flag::new("delay_ms", ValueKind::Int64, "1000", "Pause between two readings").aliases(&["d"])
        .within(100, DELAY_MS_MAX),
    Flag::new("once", ValueKind::Bool, "false", "Print all tables once, after one delay, and end"),
];

/// The command as its settings see it.
const TOP: Program = Program {
    name: "perigee top",
    version: env!("CARGO_PKG_VERSION"),
    summary: "shows NICs, links, flows, slow batches, disks and shards of this host, or who is slow in a cluster; Tab changes the view, ? lists the keys",
    variable_prefix: "PERIGEE_TOP_",
    words: &[],
    tables: &[("Top", FLAGS)],
};

/// Shows the tables until `q` is pressed, or prints them once.
pub(crate) fn run(
    invocation: &Invocation,
    environment: &ProcessEnvironment,
) -> Result<(), Failure> {
    let settings = match TOP.load(&invocation.arguments, environment)? {
        ProgramStart::Print(text) => return Ok(output::print(&text)?),
        ProgramStart::Run(settings) => settings,
    };
    let delay = Duration::from_millis(settings.integer("delay_ms"));
    let is_once = settings.bool("once") || !std::io::stdout().is_terminal();
    if let Some(master) = settings.optional_text("cluster") {
        return of_cluster(master, delay, is_once);
    }
    if let Some(master) = settings.optional_text("master_server_address") {
        let host = master.rsplit_once(':').map_or(master, |(host, _)| host);
        let port: u16 = settings.integer("metrics_port");
        return of_cluster(&format!("{host}:{port}"), delay, is_once);
    }
    let mut source = SnapshotSource::open(settings.optional_text("agent"))?;
    let mut board = TopState::new(delay, source.name());
    board.accept(source.read());
    if is_once {
        std::thread::sleep(delay);
        read_again(&mut board, || source.read());
        return Ok(output::print(&board.text())?);
    }
    Ok(watched::show(&mut board, screen::draw, move || source.read())?)
}

/// Takes a reading that is newer than the one before, if one comes in time: an agent gives the same
/// for a second.
fn read_again(board: &mut TopState, mut read: impl FnMut() -> Result<Snapshot, String>) {
    let end = Instant::now() + NEW_READING_DEADLINE;
    loop {
        board.accept(read());
        if board.has_two() || board.trouble.is_some() || Instant::now() >= end {
            return;
        }
        std::thread::sleep(NEW_READING_PAUSE);
    }
}

/// Shows a cluster until `q` is pressed, or prints it once.
fn of_cluster(master: &str, delay: Duration, is_once: bool) -> Result<(), Failure> {
    let asked = AskedAgent::with_port(master, MASTER_PORT);
    let mut state = ClusterState::new(delay, asked.place());
    let address = master.escape_debug().take(80).collect();
    let first = cluster::read(&asked);
    state.accept(Ok(first.map_err(|reason| Failure::NoVerdict { address, reason })?));
    if is_once {
        return Ok(output::print(&state.text())?);
    }
    Ok(watched::show(&mut state, cluster::draw, move || cluster::read(&asked))?)
}

#[cfg(test)]
mod tests;
