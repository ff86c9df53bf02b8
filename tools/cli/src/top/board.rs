//! What the terminal shows and how keys change it. Pure: readings come in, nothing goes out.

use super::rates;
use super::table::{Table, View};
use super::watched::{AfterKey, Watched};
use perigee_agent::{Snapshot, Suspect};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use std::collections::{HashMap, VecDeque};
use std::fmt::Write as _;
use std::time::Duration;

/// Readings that graphs show.
const HISTORY: usize = 120;
const DELAY_MIN: Duration = Duration::from_millis(100);
const DELAY_MAX: Duration = Duration::from_secs(60);

/// Everything that is shown.
pub(super) struct TopState {
    delay: Duration,
    newer: Snapshot,
    older: Snapshot,
    pub(super) origin: String,
    /// Why there is nothing new.
    pub(super) trouble: Option<String>,
    pub(super) view: View,
    /// Column that rows are sorted by, view by view.
    sorted: HashMap<&'static str, usize>,
    pub(super) filter: String,
    pub(super) typing: bool,
    pub(super) selected: usize,
    /// Row whose graph is open.
    pub(super) graph: Option<String>,
    pub(super) help: bool,
    paused: bool,
    /// Of the rows that there are now.
    history: HashMap<(&'static str, String), VecDeque<[f64; 2]>>,
}

impl Watched for TopState {
    type Reading = Snapshot;

    fn press(&mut self, key: KeyEvent) -> AfterKey {
        if key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c') {
            return AfterKey::End;
        }
        if self.typing {
            self.type_filter(key.code);
            return AfterKey::Stay;
        }
        match key.code {
            KeyCode::Char('q') => return AfterKey::End,
            KeyCode::Esc if self.help => self.help = false,
            KeyCode::Esc if self.graph.is_some() => self.graph = None,
            KeyCode::Esc => self.filter.clear(),
            KeyCode::Char('?' | 'h') => self.help = !self.help,
            KeyCode::Char(' ') => self.paused = !self.paused,
            KeyCode::Char('s') => self.next_column(),
            KeyCode::Char('f' | '/') => self.typing = true,
            KeyCode::Tab | KeyCode::Right => self.change_view(1),
            KeyCode::BackTab | KeyCode::Left => self.change_view(View::ALL.len() - 1),
            KeyCode::Down => self.selected = self.selected.saturating_add(1),
            KeyCode::Up => self.selected = self.selected.saturating_sub(1),
            KeyCode::Char('+') => self.delay = (self.delay * 2).min(DELAY_MAX),
            KeyCode::Char('-') => self.delay = (self.delay / 2).max(DELAY_MIN),
            KeyCode::Enter => self.toggle_graph(),
            _ => {}
        }
        self.keep_selection();
        AfterKey::Stay
    }

    /// Takes a reading, or says why there is none.
    fn accept(&mut self, reading: Result<Snapshot, String>) {
        match reading {
            Ok(snapshot) => self.take(snapshot),
            Err(reason) => self.trouble = Some(reason),
        }
    }

    fn delay(&self) -> Duration {
        self.delay
    }

    fn is_paused(&self) -> bool {
        self.paused
    }
}

impl TopState {
    pub(super) fn new(delay: Duration, origin: &str) -> Self {
        Self {
            delay,
            newer: Snapshot::default(),
            older: Snapshot::default(),
            origin: origin.to_owned(),
            trouble: None,
            view: View::Nics,
            sorted: HashMap::new(),
            filter: String::new(),
            typing: false,
            selected: 0,
            graph: None,
            help: false,
            paused: false,
            history: HashMap::new(),
        }
    }

    /// Takes a reading; an agent that makes one a second may give the same twice.
    pub(super) fn take(&mut self, snapshot: Snapshot) {
        self.trouble = None;
        if snapshot.monotonic_ns == self.newer.monotonic_ns {
            return;
        }
        self.older = std::mem::replace(&mut self.newer, snapshot);
        if self.older.monotonic_ns == 0 {
            return;
        }
        let mut before = std::mem::take(&mut self.history);
        for view in View::ALL {
            for row in rates::table(view, &self.newer, &self.older).rows {
                let key = (view.title(), row.key);
                let mut points = before.remove(&key).unwrap_or_default();
                points.push_back(row.graph);
                if points.len() > HISTORY {
                    points.pop_front();
                }
                self.history.insert(key, points);
            }
        }
    }

    /// Whether there are two readings, so that rates are known.
    pub(super) fn has_two(&self) -> bool {
        self.older.monotonic_ns > 0
    }

    pub(super) fn table(&self) -> Table {
        rates::table(self.view, &self.newer, &self.older)
    }

    pub(super) fn sorted_by(&self) -> usize {
        self.sorted.get(self.view.title()).copied().unwrap_or(self.view.main_column())
    }

    /// Readings of a row, the oldest first.
    pub(super) fn points(&self, key: &str) -> Vec<[f64; 2]> {
        let points = self.history.get(&(self.view.title(), key.to_owned()));
        points.map(|points| points.iter().copied().collect()).unwrap_or_default()
    }

    /// How many rows have points.
    #[cfg(test)]
    pub(super) fn remembered(&self) -> usize {
        self.history.len()
    }

    pub(super) fn host(&self) -> &str {
        &self.newer.host
    }

    /// Who is slow now.
    pub(super) fn suspects(&self) -> &[Suspect] {
        &self.newer.suspects
    }

    fn type_filter(&mut self, key: KeyCode) {
        match key {
            KeyCode::Enter => self.typing = false,
            KeyCode::Esc => {
                self.typing = false;
                self.filter.clear();
            }
            KeyCode::Backspace => drop(self.filter.pop()),
            KeyCode::Char(character) => self.filter.push(character),
            _ => {}
        }
        self.keep_selection();
    }

    fn next_column(&mut self) {
        let next = (self.sorted_by() + 1) % self.view.columns().len();
        self.sorted.insert(self.view.title(), next);
    }

    fn change_view(&mut self, step: usize) {
        let at = View::ALL.iter().position(|view| *view == self.view).unwrap_or(0);
        self.view = View::ALL[(at + step) % View::ALL.len()];
        self.selected = 0;
        self.graph = None;
    }

    fn toggle_graph(&mut self) {
        if self.graph.take().is_none() {
            let table = self.table();
            let rows = table.arranged(self.sorted_by(), &self.filter);
            self.graph = rows.get(self.selected).map(|row| row.key.clone());
        }
    }

    fn keep_selection(&mut self) {
        let count = self.table().arranged(self.sorted_by(), &self.filter).len();
        self.selected = self.selected.min(count.saturating_sub(1));
    }

    /// All tables, for a pipe.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        for suspect in self.suspects() {
            let _ = writeln!(text, "{}", accusation(suspect));
        }
        for view in View::ALL {
            let table = rates::table(view, &self.newer, &self.older);
            let _ = writeln!(text, "{}", view.title());
            for (title, width) in view.columns() {
                let _ = write!(text, "{title:<width$} ", width = usize::from(*width));
            }
            text.push('\n');
            for row in table.arranged(view.main_column(), "") {
                for (cell, (_, width)) in row.cells.iter().zip(view.columns()) {
                    let _ = write!(text, "{:<width$} ", cell.text, width = usize::from(*width));
                }
                text.push('\n');
            }
            text.push('\n');
        }
        text
    }
}

/// Who is slow, and the numbers behind that.
pub(super) fn accusation(suspect: &Suspect) -> String {
    let Suspect { name, evidence, .. } = suspect;
    format!("SLOW {} {name}: {evidence}", suspect.kind.label())
}
