//! `perigee top`: NICs, links, flows, slow batches, disks and shards of this host in a terminal.
//! Invariant: it costs only while it is open, and leaves the terminal as it was however it ends.

mod board;
mod pace;
mod rates;
mod reader;
mod screen;
mod source;
mod table;

use crate::failure::Failure;
use crate::invocation::Invocation;
use crate::output;
use crate::signals::block_stop_signals;
use board::{AfterKey, TopState};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use perigee_flags::{Flag, ProcessEnvironment, Program, ProgramStart, ValueKind};
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use reader::Reader;
use source::SnapshotSource;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// Longest pause between two readings, in milliseconds.
const DELAY_MS_MAX: i128 = 60_000;
/// How long a key is waited for before the screen is looked at again.
const KEY_WAIT: Duration = Duration::from_millis(100);

#[rustfmt::skip]
const FLAGS: &[Flag] = &[
    Flag::new("agent", ValueKind::Text, "",
        "HOST or HOST:PORT of an agent; empty asks the one on this host, and reads the host itself if there is none"),
    Flag::new("delay_ms", ValueKind::Int64, "1000", "Pause between two readings").aliases(&["d"])
        .within(100, DELAY_MS_MAX),
    Flag::new("once", ValueKind::Bool, "false", "Print all tables once, after one delay, and end"),
];

/// The command as its settings see it.
const TOP: Program = Program {
    name: "perigee top",
    version: env!("CARGO_PKG_VERSION"),
    summary: "shows NICs, links, flows, slow batches, disks and shards of this host; Tab changes the view, ? lists the keys",
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
    let mut source = SnapshotSource::open(settings.optional_text("agent"))?;
    let mut board = TopState::new(delay, source.name());
    board.accept(source.read());
    if settings.bool("once") || !std::io::stdout().is_terminal() {
        std::thread::sleep(delay);
        board.accept(source.read());
        return Ok(output::print(&board.text())?);
    }
    // Blocked before the reader's thread is there, which inherits it: a signal must not end the
    // program before the terminal is as it was.
    let stop = SignalFd::with_flags(&block_stop_signals()?, SfdFlags::SFD_NONBLOCK);
    let stop = stop.map_err(std::io::Error::from)?;
    let reader = Reader::start(source)?;
    let mut terminal = ratatui::try_init()?;
    let ended = watch(&mut board, &reader, &stop, &mut terminal);
    ratatui::restore();
    Ok(ended?)
}

fn watch(
    board: &mut TopState,
    reader: &Reader,
    stop: &SignalFd,
    terminal: &mut ratatui::DefaultTerminal,
) -> std::io::Result<()> {
    let mut asked = Instant::now();
    while stop.read_signal()?.is_none() {
        terminal.draw(|frame| screen::draw(board, frame))?;
        let left = board.delay().saturating_sub(asked.elapsed());
        if event::poll(left.min(KEY_WAIT))?
            && let Event::Key(key) = event::read()?
            && key.kind == KeyEventKind::Press
            && board.press(key) == AfterKey::End
        {
            return Ok(());
        }
        if let Some(reading) = reader.reading() {
            board.accept(reading);
        }
        if asked.elapsed() >= board.delay() && !board.is_paused() {
            asked = Instant::now();
            reader.ask();
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
