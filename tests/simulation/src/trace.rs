//! What happened in a run, as a hash over everything and the last steps in words.
//! Invariant: nothing enters that differs from process to process, such as addresses of memory.

use crate::limits::TRACE_NOTES_MAX;
use crate::random::mix;
use std::collections::VecDeque;
use std::fmt::{self, Display};
use std::time::Duration;

/// One step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Note {
    /// In the run's time.
    pub(crate) at: Duration,
    /// What happened.
    pub(crate) what: &'static str,
    /// The object: a host, task or connection.
    pub(crate) subject: u64,
    /// How much, or with which result.
    pub(crate) detail: u64,
}

/// All steps of a run.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    hash: u64,
    steps: u64,
    recent: VecDeque<Note>,
}

impl Trace {
    /// Adds a step.
    pub(crate) fn note(&mut self, note: Note) {
        let words = [note.at.as_nanos() as u64, note.subject, note.detail];
        let letters = note.what.bytes().map(u64::from);
        for word in letters.chain(words) {
            self.hash = mix(self.hash.rotate_left(5) ^ word);
        }
        self.steps += 1;
        if self.recent.len() == TRACE_NOTES_MAX {
            self.recent.pop_front();
        }
        self.recent.push_back(note);
    }

    /// Equal for equal runs.
    pub(crate) fn hash(&self) -> u64 {
        self.hash
    }

    /// How many steps there were.
    pub(crate) fn steps(&self) -> u64 {
        self.steps
    }
}

/// The last steps, one a line.
impl Display for Trace {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for note in &self.recent {
            let Note { at, what, subject, detail } = note;
            let at_ms = at.as_secs_f64() * 1e3;
            writeln!(formatter, "{at_ms:>14.6} ms  {what} {subject} {detail}")?;
        }
        Ok(())
    }
}
