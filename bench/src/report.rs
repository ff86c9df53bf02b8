//! What a benchmark says: its figures, then the table they come from.
//! Invariant: text and JSON carry the same numbers.

use serde_json::{Value, json};
use std::fmt::Write as _;

/// One figure with the bound it is held against.
#[derive(Debug)]
pub(crate) struct Figure {
    /// What it is.
    pub(crate) name: String,
    /// Its value.
    pub(crate) value: f64,
    /// Unit, or empty for a ratio.
    pub(crate) unit: &'static str,
    /// The bound wanted, if any.
    pub(crate) goal: Option<Goal>,
}

/// A bound.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Goal {
    /// No less than this.
    AtLeast(f64),
    /// No more than this.
    AtMost(f64),
}

impl Goal {
    fn met(self, value: f64) -> bool {
        match self {
            Self::AtLeast(bound) => value >= bound,
            Self::AtMost(bound) => value <= bound,
        }
    }

    fn text(self) -> String {
        match self {
            Self::AtLeast(bound) => format!(">= {bound}"),
            Self::AtMost(bound) => format!("<= {bound}"),
        }
    }
}

/// A cell of the table.
#[derive(Debug)]
pub(crate) enum Cell {
    /// Words.
    Text(String),
    /// A number, shown with so many digits behind the point.
    Number(f64, usize),
}

impl Cell {
    fn text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Number(value, digits) => format!("{value:.digits$}"),
        }
    }

    fn json(&self) -> Value {
        match self {
            Self::Text(text) => json!(text),
            Self::Number(value, _) => json!(value),
        }
    }
}

/// The whole result.
#[derive(Debug)]
pub(crate) struct Report {
    /// What to look at first.
    pub(crate) figures: Vec<Figure>,
    /// Names of the columns.
    pub(crate) columns: &'static [&'static str],
    /// Rows as long as the columns.
    pub(crate) rows: Vec<Vec<Cell>>,
    /// How it was measured.
    pub(crate) notes: Vec<String>,
}

impl Report {
    /// For people.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        for figure in &self.figures {
            let verdict = figure.goal.map_or_else(String::new, |goal| {
                let outcome = if goal.met(figure.value) {
                    "met"
                } else {
                    "missed"
                };
                format!("  (goal {}: {outcome})", goal.text())
            });
            let _ = writeln!(
                text,
                "{}: {:.3} {}{verdict}",
                figure.name, figure.value, figure.unit
            );
        }
        text.push('\n');
        let header = self.columns.iter().map(|name| (*name).to_owned()).collect();
        let body = self
            .rows
            .iter()
            .map(|row| row.iter().map(Cell::text).collect());
        let lines: Vec<Vec<String>> = std::iter::once(header).chain(body).collect();
        let widths: Vec<usize> = (0..self.columns.len())
            .map(|at| lines.iter().map(|line| line[at].len()).max().unwrap_or(0))
            .collect();
        for line in &lines {
            let cells: Vec<String> = line
                .iter()
                .zip(&widths)
                .map(|(cell, width)| format!("{cell:>width$}"))
                .collect();
            let _ = writeln!(text, "{}", cells.join("  "));
        }
        for note in &self.notes {
            let _ = writeln!(text, "{note}");
        }
        text
    }

    /// For programs.
    pub(crate) fn json(&self) -> Value {
        let figure = |figure: &Figure| {
            json!({
                "name": figure.name,
                "value": figure.value,
                "unit": figure.unit,
                "goal": figure.goal.map(Goal::text),
                "met": figure.goal.map(|goal| goal.met(figure.value)),
            })
        };
        let row = |row: &Vec<Cell>| -> Value {
            let pairs = self.columns.iter().zip(row);
            pairs
                .map(|(name, cell)| ((*name).to_owned(), cell.json()))
                .collect()
        };
        json!({
            "figures": self.figures.iter().map(figure).collect::<Vec<_>>(),
            "rows": self.rows.iter().map(row).collect::<Vec<_>>(),
            "notes": self.notes,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let figure = |value, goal| Figure {
            name: "ratio".to_owned(),
            value,
            unit: "",
            goal: Some(goal),
        };
        Report {
            figures: vec![
                figure(0.9, Goal::AtLeast(0.8)),
                figure(400.0, Goal::AtMost(300.0)),
            ],
            columns: &["size", "GB/s"],
            rows: vec![vec![Cell::Text("4 KiB".to_owned()), Cell::Number(1.25, 1)]],
            notes: vec!["a note".to_owned()],
        }
    }

    #[test]
    fn text_says_which_goals_are_met() {
        let text = report().text();
        assert!(
            text.starts_with("ratio: 0.900   (goal >= 0.8: met)\n"),
            "{text}"
        );
        assert!(text.contains("(goal <= 300: missed)"), "{text}");
        assert!(text.contains(" size  GB/s\n4 KiB   1.2\n"), "{text}");
    }

    #[test]
    fn json_carries_the_numbers_unrounded() {
        let json = report().json();
        assert_eq!(json["rows"][0]["GB/s"], 1.25);
        assert_eq!(json["figures"][1]["met"], false);
    }
}
