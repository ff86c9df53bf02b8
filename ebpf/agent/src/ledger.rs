//! Counters that never fall: what a source has counted since it was read last is added to the total
//! of its series. Invariant: nothing is counted twice, and a source that restarts counts from its
//! first event.
//!
//! Only for sources that live no longer than the agent, such as the maps of probes; what outlives
//! it would be added to itself by the next agent.

use crate::limits::GONE_SERIES_MAX;
use crate::persisted::StateFolder;
use std::collections::BTreeMap;
use std::io;

const FILE: &str = "counters.json";
/// Between the labels in the name of a series: no label has it, see [`name`].
const BETWEEN: char = '\u{1f}';

/// Totals by series. A series is a name with its labels; its cells are a counter or the cells of a
/// distribution.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    series: BTreeMap<String, Series>,
    /// What each source had counted when it was read last.
    sources: BTreeMap<CellSource, CellReading>,
    turn: u64,
}

#[derive(Debug)]
struct Series {
    total: Vec<u64>,
    /// The turn that counted it last; 0 for one of an earlier agent.
    turn: u64,
}

#[derive(Debug)]
struct CellReading {
    cells: Vec<u64>,
    turn: u64,
}

/// Where cells come from.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum CellSource {
    /// A place in the kernel that keeps its count between readings, under whatever name it was
    /// counted: the slot of an interface number. There are as many as the maps have room for.
    Slot(&'static str, u32),
    /// The same for a place that is known by a name.
    Place(String),
    /// What the kernel forgets when it is no longer watched: a thread or a process. Its number may
    /// come back for another.
    Life(&'static str, u32),
}

/// The name of a series with these labels.
pub(crate) fn name<const N: usize>(kind: &str, labels: [&str; N]) -> String {
    let mut name = kind.to_owned();
    for part in labels {
        name.push(BETWEEN);
        name.extend(part.chars().filter(|letter| *letter != BETWEEN));
    }
    name
}

/// The labels in the name of a series, if it is one of this kind.
pub(crate) fn labels<'a, const N: usize>(kind: &str, name: &'a str) -> Option<[&'a str; N]> {
    let mut parts = name.split(BETWEEN);
    let is_kind = parts.next() == Some(kind);
    let labels = parts.collect::<Vec<_>>().try_into().ok();
    labels.filter(|_| is_kind)
}

impl Ledger {
    /// Goes on from what was kept.
    pub(crate) fn open(keep: &StateFolder) -> Self {
        let kept: BTreeMap<String, Vec<u64>> = keep.read(FILE);
        let series = kept.into_iter().map(|(name, total)| {
            let series = Series { total, turn: 0 };
            (name, series)
        });
        Self { series: series.collect(), ..Self::default() }
    }

    /// Begins a reading of all sources.
    pub(crate) fn begin(&mut self) {
        self.turn += 1;
    }

    /// Ends the reading: lives that were not read are over, and of series without a source only the
    /// latest stay.
    pub(crate) fn end(&mut self) {
        let turn = self.turn;
        let is_over = |source: &CellSource| matches!(source, CellSource::Life(..));
        self.sources.retain(|source, reading| reading.turn == turn || !is_over(source));
        let gone = |series: &&Series| series.turn != turn;
        let mut turns: Vec<u64> =
            self.series.values().filter(gone).map(|series| series.turn).collect();
        let Some(excess) = turns.len().checked_sub(GONE_SERIES_MAX).filter(|excess| *excess > 0)
        else {
            return;
        };
        turns.sort_unstable();
        let (newest_dropped, mut excess) = (turns[excess - 1], excess);
        self.series.retain(|_, series| {
            let is_dropped = series.turn != turn && series.turn <= newest_dropped && excess > 0;
            excess -= usize::from(is_dropped);
            !is_dropped
        });
    }

    /// Adds what `source`, which has counted `cells` in its life, has counted since it was read
    /// last.
    pub(crate) fn count(&mut self, series: &str, source: CellSource, cells: &[u64]) {
        let turn = self.turn;
        let last = self.sources.get(&source).map_or(&[][..], |last| &last.cells);
        let before = |index: usize| last.get(index).copied().unwrap_or(0);
        // Counters do not fall: a source whose counters do has restarted.
        let is_new = cells.iter().enumerate().any(|(at, cell)| *cell < before(at));
        let grown = cells.iter().enumerate();
        let grown = grown.map(|(at, cell)| if is_new { *cell } else { cell - before(at) });
        let grown: Vec<u64> = grown.collect();
        let cells = cells.to_vec();
        self.sources.insert(source, CellReading { cells, turn });
        match self.series.get_mut(series) {
            Some(series) => {
                series.turn = turn;
                add(&mut series.total, &grown);
            }
            // Most interfaces never see most events.
            None if grown.iter().all(|cell| *cell == 0) => {}
            None => {
                let series_of = Series { total: grown, turn };
                drop(self.series.insert(series.to_owned(), series_of));
            }
        }
    }

    /// What a series has counted; no cells if it never counted anything.
    pub(crate) fn read(&self, series: &str) -> &[u64] {
        let series = self.series.get(series);
        series.map_or(&[], |series| &series.total)
    }

    /// The first cells of a series.
    pub(crate) fn numbers<const N: usize>(&self, series: &str) -> [u64; N] {
        let cells = self.read(series);
        std::array::from_fn(|index| cells.get(index).copied().unwrap_or(0))
    }

    /// Counts a series with a source of its own; returns its total.
    pub(crate) fn total<const N: usize>(&mut self, series: &str, cells: [u64; N]) -> [u64; N] {
        self.count(series, CellSource::Place(series.to_owned()), &cells);
        self.numbers(series)
    }

    /// Labels of all series of a kind, also those that only earlier agents counted. The page shows
    /// them, so they stay.
    pub(crate) fn of_kind<const N: usize>(&mut self, kind: &str) -> Vec<[String; N]> {
        let turn = self.turn;
        let mut found = Vec::new();
        for (name, series) in &mut self.series {
            if let Some(labels) = labels(kind, name) {
                series.turn = turn;
                found.push(labels.map(str::to_owned));
            }
        }
        found
    }

    /// Keeps the totals for the next agent.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub(crate) fn save(&self, keep: &StateFolder) -> io::Result<()> {
        let totals = self.series.iter().map(|(name, series)| (name, &series.total));
        keep.write(FILE, &totals.collect::<BTreeMap<_, _>>())
    }
}

fn add(total: &mut Vec<u64>, grown: &[u64]) {
    total.resize(total.len().max(grown.len()), 0);
    for (cell, more) in total.iter_mut().zip(grown) {
        *cell = cell.saturating_add(*more);
    }
}

#[cfg(test)]
mod tests;
