//! The text of a scrape, piece by piece.
//! Invariant: a piece is at most [`PIECE_BYTES`] and one family's made lines long, however many
//! rows a family has.

use super::lines::{push_line, zero_lines};
use crate::catalogue;
use crate::family::{Family, MetricKind, MetricSource};
use crate::limits::PIECE_BYTES;
use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::iter::Enumerate;

/// Lines of one family, made one by one.
pub(super) struct Rows(pub(super) Box<dyn Iterator<Item = String> + Send>);

impl fmt::Debug for Rows {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Rows")
    }
}

type Families = Box<dyn Iterator<Item = &'static Family> + Send>;

/// The pieces of one text.
pub struct Pieces {
    source: MetricSource,
    lines: BTreeMap<usize, Vec<String>>,
    rows: BTreeMap<usize, Rows>,
    /// What stands behind lines, by family and number of the line.
    exemplars: BTreeMap<(usize, usize), String>,
    families: Enumerate<Families>,
    /// Rows of the family before that are still to be written.
    open: Option<Rows>,
    /// What stands before a family's samples.
    head: fn(&mut String, &Family),
    /// What stands after the last sample, until it is written.
    end: Option<&'static str>,
}

impl Pieces {
    pub(super) fn plain(
        source: MetricSource,
        lines: BTreeMap<usize, Vec<String>>,
        rows: BTreeMap<usize, Rows>,
    ) -> Self {
        let families: Families = Box::new(catalogue::families());
        let families = families.enumerate();
        let exemplars = BTreeMap::new();
        Self { source, lines, rows, exemplars, families, open: None, head: plain_head, end: None }
    }

    pub(super) fn openmetrics(
        source: MetricSource,
        lines: BTreeMap<usize, Vec<String>>,
        rows: BTreeMap<usize, Rows>,
        exemplars: BTreeMap<(usize, usize), String>,
    ) -> Self {
        let plain = Self::plain(source, lines, rows);
        Self { exemplars, head: openmetrics_head, end: Some("# EOF\n"), ..plain }
    }

    /// Writes open rows until the piece is full or there are none.
    fn push_rows(&mut self, text: &mut String) {
        while let Some(Rows(rows)) = &mut self.open
            && text.len() < PIECE_BYTES
        {
            match rows.next() {
                Some(line) => push_line(text, &line),
                None => self.open = None,
            }
        }
    }

    /// Writes the next family, but for rows, which are left open; false after the last.
    fn push_family(&mut self, text: &mut String) -> bool {
        let source = self.source;
        let Some((index, family)) = self.families.find(|(_, family)| family.source == source)
        else {
            return false;
        };
        (self.head)(text, family);
        self.open = self.rows.remove(&index);
        match self.lines.remove(&index) {
            Some(lines) => {
                for (number, line) in lines.iter().enumerate() {
                    text.push_str(line);
                    let exemplar = self.exemplars.remove(&(index, number));
                    push_line(text, exemplar.as_deref().unwrap_or_default());
                }
            }
            None if family.labels.is_empty() => zero_lines(family, text),
            None => {}
        }
        true
    }
}

impl Iterator for Pieces {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        let mut text = String::new();
        self.push_rows(&mut text);
        while text.len() < PIECE_BYTES && self.push_family(&mut text) {
            self.push_rows(&mut text);
        }
        if text.len() < PIECE_BYTES {
            text.push_str(self.end.take().unwrap_or_default());
        }
        (!text.is_empty()).then_some(text)
    }
}

fn plain_head(text: &mut String, family: &Family) {
    let _ = writeln!(text, "# HELP {} {}", family.name, family.help);
    let _ = writeln!(text, "# TYPE {} {}", family.name, family.kind.word());
}

fn openmetrics_head(text: &mut String, family: &Family) {
    // There a family is named without the ending of its samples, and ends in its unit. A counter
    // has to end in `_total`, which names of Mooncake do not all, and no two families may have one
    // name: what cannot be a counter has no type.
    let total = family.name.strip_suffix("_total").filter(|name| catalogue::find(name).is_none());
    let (name, kind) = match (family.kind, total) {
        (MetricKind::Counter, Some(name)) => (name, "counter"),
        (MetricKind::Counter, None) => (family.name, "unknown"),
        (kind, _) => (family.name, kind.word()),
    };
    let _ = writeln!(text, "# TYPE {name} {kind}");
    if name.ends_with(&format!("_{}", family.unit)) {
        let _ = writeln!(text, "# UNIT {name} {}", family.unit);
    }
    let _ = writeln!(text, "# HELP {name} {}", family.help);
}
