//! A comparison as lines for spreadsheets. Invariant: every line has as many fields as the first.

use super::{Comparison, Pair};

/// All rows, after a line with the names of the columns.
pub(super) fn csv(comparison: &Comparison) -> String {
    let mut text = String::from(
        "operation,nic,bytes,depth,threads,before_median,before_low,before_high,\
         after_median,after_low,after_high,ratio,p99_ratio,overlap,has_spread\n",
    );
    for row in &comparison.rows {
        text.push_str(&line(row));
        text.push('\n');
    }
    text
}

fn line(row: &Pair) -> String {
    let (before, after) = (row.before, row.after);
    let numbers = [before.median, before.low, before.high, after.median, after.low, after.high];
    let mut fields = vec![
        row.operation.clone(),
        row.nic.clone(),
        row.bytes.to_string(),
        row.depth.to_string(),
        row.threads.to_string(),
    ];
    fields.extend(numbers.map(|number| number.to_string()));
    let ratio = |ratio: Option<f64>| ratio.map_or(String::new(), |ratio| ratio.to_string());
    fields.extend([ratio(row.ratio), ratio(row.p99_ratio)]);
    fields.extend([row.overlap, row.has_spread].map(|flag| flag.to_string()));
    fields.join(",")
}
