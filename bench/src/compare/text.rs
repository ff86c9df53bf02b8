//! A comparison for people. Invariant: what makes the ratios doubtful stands above them; no line of
//! the table passes 80 columns while names are short.

use std::fmt::Write as _;

use super::{Comparison, Pair};
use crate::report::{RateUnit, bytes_text};
use crate::sample::Spread;

/// Everything.
pub(super) fn text(comparison: &Comparison) -> String {
    let mut text = format!("before: {}\nafter:  {}\n", comparison.files[0], comparison.files[1]);
    for warning in &comparison.warnings {
        let _ = writeln!(text, "warning: {warning}");
    }
    text.push('\n');
    let header = ["what", "before", "after", "ratio", "p99", ""].map(str::to_owned);
    let mut lines = vec![header];
    lines.extend(comparison.rows.iter().map(cells));
    let width = |at: usize| lines.iter().map(|line| line[at].len()).max().unwrap_or(0);
    let widths: [usize; 5] = std::array::from_fn(width);
    for line in &lines {
        let mut row = format!("{:<width$}", line[0], width = widths[0]);
        for (cell, width) in line[1..5].iter().zip(&widths[1..]) {
            let _ = write!(row, "  {cell:>width$}");
        }
        let _ = write!(row, "  {}", line[5]);
        let _ = writeln!(text, "{}", row.trim_end());
    }
    let _ = writeln!(
        text,
        "\nrate of {}, parts: median (lowest..highest); ratio = after / before",
        units(&comparison.rows)
    );
    if comparison.unmatched > 0 {
        let _ = writeln!(text, "{} rows are in one file only", comparison.unmatched);
    }
    text
}

/// The units of the rows.
fn units(rows: &[Pair]) -> String {
    let word = |row: &Pair| match row.unit {
        RateUnit::Bytes => "GB/s",
        RateUnit::Keys => "M keys/s",
        RateUnit::Operations => "M/s",
    };
    let mut words: Vec<&str> = rows.iter().map(word).collect();
    words.sort_unstable();
    words.dedup();
    words.join(" or ")
}

fn cells(row: &Pair) -> [String; 6] {
    let size = match row.unit {
        RateUnit::Bytes => bytes_text(row.bytes),
        RateUnit::Keys => format!("{} keys", row.depth),
        RateUnit::Operations => String::new(),
    };
    let nic = if row.nic == crate::report::TOTAL { String::new() } else { format!(" {}", row.nic) };
    let verdict = match (row.overlap, row.after.median >= row.before.median) {
        _ if !row.has_spread => "too short",
        (true, _) => "overlap",
        (false, true) => "faster",
        (false, false) => "slower",
    };
    [
        format!("{} {size}{nic}", row.operation).trim_end().to_owned(),
        spread_text(row.unit, row.before),
        spread_text(row.unit, row.after),
        ratio_text(row.ratio),
        ratio_text(row.p99_ratio),
        verdict.to_owned(),
    ]
}

fn ratio_text(ratio: Option<f64>) -> String {
    ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.3}"))
}

fn spread_text(unit: RateUnit, spread: Spread) -> String {
    let per = match unit {
        RateUnit::Bytes => 1e9,
        RateUnit::Keys | RateUnit::Operations => 1e6,
    };
    let shown = |rate: f64| rate / per;
    let digits = if shown(spread.median) >= 10.0 { 1 } else { 2 };
    format!(
        "{:.digits$} ({:.digits$}..{:.digits$})",
        shown(spread.median),
        shown(spread.low),
        shown(spread.high)
    )
}
