//! The loop of a terminal that shows readings until it is closed.

use super::reader::Reader;
use crate::signals::block_stop_signals;
use nix::sys::signalfd::{SfdFlags, SignalFd};
use ratatui::Frame;
use ratatui::crossterm::event::{self, Event, KeyEvent, KeyEventKind};
use std::time::{Duration, Instant};

/// How long a key is waited for before the screen is looked at again.
const KEY_WAIT: Duration = Duration::from_millis(100);

/// What follows a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AfterKey {
    Stay,
    End,
}

/// What is drawn of readings, and how keys change it.
pub(super) trait Watched {
    /// What is read again and again.
    type Reading: Send + 'static;

    fn press(&mut self, key: KeyEvent) -> AfterKey;
    fn accept(&mut self, reading: Result<Self::Reading, String>);
    /// Pause between two readings.
    fn delay(&self) -> Duration;
    fn is_paused(&self) -> bool;
}

/// Shows it until `q` is pressed or a signal comes; the terminal is as it was then.
pub(super) fn show<W: Watched>(
    shown: &mut W,
    draw: fn(&W, &mut Frame<'_>),
    read: impl FnMut() -> Result<W::Reading, String> + Send + 'static,
) -> std::io::Result<()> {
    // Blocked before the reader's thread is there, which inherits it: a signal must not end the
    // program before the terminal is as it was.
    let stop = SignalFd::with_flags(&block_stop_signals()?, SfdFlags::SFD_NONBLOCK);
    let stop = stop.map_err(std::io::Error::from)?;
    let reader = Reader::start(read)?;
    let mut terminal = ratatui::try_init()?;
    let ended = watch((shown, draw), &reader, &stop, &mut terminal);
    ratatui::restore();
    ended
}

fn watch<W: Watched>(
    (shown, draw): (&mut W, fn(&W, &mut Frame<'_>)),
    reader: &Reader<W::Reading>,
    stop: &SignalFd,
    terminal: &mut ratatui::DefaultTerminal,
) -> std::io::Result<()> {
    let mut asked = Instant::now();
    while stop.read_signal()?.is_none() {
        terminal.draw(|frame| draw(shown, frame))?;
        let left = shown.delay().saturating_sub(asked.elapsed());
        if event::poll(left.min(KEY_WAIT))?
            && let Event::Key(key) = event::read()?
            && key.kind == KeyEventKind::Press
            && shown.press(key) == AfterKey::End
        {
            return Ok(());
        }
        if let Some(reading) = reader.reading() {
            shown.accept(reading);
        }
        if asked.elapsed() >= shown.delay() && !shown.is_paused() {
            asked = Instant::now();
            reader.ask();
        }
    }
    Ok(())
}
