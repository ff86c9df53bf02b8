//! Tables of numbers that can be sorted and filtered, and how the numbers are written.

use std::cmp::Ordering;

/// What is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum View {
    Nics,
    Links,
    Flows,
    Slow,
    Tier,
    Disks,
    Shards,
    Probes,
}

const TIER: [(&str, u16); 8] = [
    ("path", 12),
    ("process", 13),
    ("state", 10),
    ("full", 5),
    ("reads/s", 8),
    ("p99", 7),
    ("writes/s", 9),
    ("next try, why", 16),
];

const PROBES: [(&str, u16); 5] =
    [("source", 12), ("state", 6), ("runs/s", 8), ("each", 8), ("why, from where", 42)];

impl View {
    pub(super) const ALL: [Self; 8] = [
        Self::Nics,
        Self::Links,
        Self::Flows,
        Self::Slow,
        Self::Tier,
        Self::Disks,
        Self::Shards,
        Self::Probes,
    ];

    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Nics => "NICs",
            Self::Links => "Links",
            Self::Flows => "Flows",
            Self::Slow => "Slow",
            Self::Tier => "SSD",
            Self::Disks => "Disks",
            Self::Shards => "Shards",
            Self::Probes => "Probes",
        }
    }

    /// Column titles and widths; 80 columns hold all of them.
    pub(super) fn columns(self) -> &'static [(&'static str, u16)] {
        match self {
            Self::Nics => &[
                ("NIC", 14),
                ("kind", 9),
                ("link", 5),
                ("in/s", 9),
                ("out/s", 9),
                ("used", 6),
                ("p50", 8),
                ("p99", 8),
                ("lost/s", 7),
            ],
            Self::Links => &[
                ("NIC", 11),
                ("peer", 17),
                ("bytes/s", 9),
                ("ops/s", 8),
                ("each", 8),
                ("peer's", 8),
                ("rtt", 8),
                ("resent/s", 9),
            ],
            Self::Slow => &[
                ("ago", 6),
                ("took", 7),
                ("queue", 7),
                ("wire", 7),
                ("peer's", 7),
                ("disk", 7),
                ("bytes", 7),
                ("way", 6),
                ("NIC", 10),
                ("peer", 16),
            ],
            Self::Flows => &[
                ("device", 11),
                ("route", 13),
                ("way", 5),
                ("program, shard", 17),
                ("bytes/s", 8),
                ("ops/s", 7),
                ("p50", 7),
                ("p99", 7),
                ("err/s", 5),
            ],
            Self::Tier => &TIER,
            Self::Disks => &[
                ("disk", 12),
                ("way", 6),
                ("bytes/s", 9),
                ("req/s", 8),
                ("depth", 6),
                ("p50", 9),
                ("p99", 9),
                ("queue p99", 10),
            ],
            Self::Shards => &[
                ("program", 18),
                ("thread", 16),
                ("count", 6),
                ("waiting", 8),
                ("wait p50", 9),
                ("wait p99", 9),
                ("sleeps/s", 9),
            ],
            Self::Probes => &PROBES,
        }
    }

    /// The column that matters most, which rows are sorted by at first.
    pub(super) fn main_column(self) -> usize {
        match self {
            Self::Slow => 0,
            Self::Nics | Self::Shards => 3,
            Self::Flows | Self::Tier => 4,
            Self::Links | Self::Disks | Self::Probes => 2,
        }
    }
}

/// A number with its text.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TableCell {
    pub(super) text: String,
    /// What rows are sorted by; `None` sorts by text.
    value: Option<f64>,
}

impl TableCell {
    pub(super) fn text(text: &str) -> Self {
        Self { text: text.to_owned(), value: None }
    }

    pub(super) fn bytes(value: f64) -> Self {
        Self::scaled(value, &["", "k", "M", "G", "T"], 1000.0)
    }

    pub(super) fn count(value: f64) -> Self {
        Self::scaled(value, &["", "k", "M", "G"], 1000.0)
    }

    pub(super) fn percent(share: Option<f64>) -> Self {
        let share = share.filter(|share| !share.is_nan());
        Self {
            text: share.map_or_else(|| "-".to_owned(), |share| format!("{:.0}%", share * 100.0)),
            value: Some(share.unwrap_or(-1.0)),
        }
    }

    pub(super) fn time(nanoseconds: Option<f64>) -> Self {
        let Some(value) = nanoseconds else {
            return Self { text: "-".to_owned(), value: Some(-1.0) };
        };
        let mut cell = Self::scaled(value, &["ns", "us", "ms", "s"], 1000.0);
        cell.value = Some(value);
        cell
    }

    /// How long ago something was; the latest is sorted first.
    pub(super) fn ago(milliseconds: u64) -> Self {
        let seconds = milliseconds / 1000;
        let text = match seconds {
            0..600 => format!("{seconds}s"),
            600..36_000 => format!("{}min", seconds / 60),
            _ => format!("{}h", seconds / 3600),
        };
        Self { text, value: Some(-(milliseconds as f64)) }
    }

    fn scaled(value: f64, units: &[&str], step: f64) -> Self {
        if value.is_nan() {
            return Self { text: "-".to_owned(), value: Some(-1.0) };
        }
        let (mut shown, mut unit) = (value, 0);
        while shown >= step * 0.9995 && unit + 1 < units.len() {
            shown /= step;
            unit += 1;
        }
        let digits = usize::from(unit > 0 && shown < 100.0);
        Self { text: format!("{shown:.digits$}{}", units[unit]), value: Some(value) }
    }

    fn order(&self, other: &Self) -> Ordering {
        match (self.value, other.value) {
            // The largest first.
            (Some(one), Some(two)) => two.total_cmp(&one),
            _ => self.text.cmp(&other.text),
        }
    }
}

/// One line.
#[derive(Clone, Debug)]
pub(super) struct TableRow {
    /// Stays the same from reading to reading.
    pub(super) key: String,
    pub(super) cells: Vec<TableCell>,
    /// What its graph shows.
    pub(super) graph: [f64; 2],
}

/// Rows of one view.
#[derive(Clone, Debug)]
pub(super) struct Table {
    pub(super) view: View,
    pub(super) rows: Vec<TableRow>,
}

impl Table {
    /// Rows with this text in any cell, sorted by a column.
    pub(super) fn arranged(&self, column: usize, filter: &str) -> Vec<&TableRow> {
        let wanted = filter.to_lowercase();
        let matches = |row: &&TableRow| {
            row.cells.iter().any(|cell| cell.text.to_lowercase().contains(&wanted))
        };
        let mut rows: Vec<_> = self.rows.iter().filter(matches).collect();
        rows.sort_by(|one, two| match (one.cells.get(column), two.cells.get(column)) {
            (Some(one_cell), Some(two_cell)) => {
                one_cell.order(two_cell).then_with(|| one.key.cmp(&two.key))
            }
            _ => one.key.cmp(&two.key),
        });
        rows
    }
}
