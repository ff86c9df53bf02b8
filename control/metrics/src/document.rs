//! The catalogue as a Markdown table for the documentation. Invariant: the page is generated, so
//! it cannot differ from what is served.

use crate::catalogue;
use crate::family::MetricSource;
use std::fmt::Write as _;

const HEAD: &str = "\
# Metrics

Written by `cargo xtask codegen` from the catalogue (`control/metrics/src/catalogue`), which is also
what programs serve and what the queries of dashboards and alerts are checked against.
`perigee inspect metrics` prints the same for the program at hand.
";

/// The page text: one table per program.
#[must_use]
pub fn catalogue_markdown() -> String {
    let mut page = String::from(HEAD);
    for source in MetricSource::ALL {
        let title = source.title();
        let _ = write!(
            page,
            "\n## {title}\n\n| name | kind | unit | labels | status | meaning |\n|---|---|---|---|---|---|\n"
        );
        for family in catalogue::families().filter(|family| family.source == source) {
            let _ = writeln!(
                page,
                "| `{}` | {} | {} | {} | {} | {} |",
                family.name,
                family.kind.word(),
                family.unit,
                family.labels.join(", "),
                family.stability.words(),
                family.help
            );
        }
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_has_one_row_per_family() {
        let page = catalogue_markdown();
        let rows = page.lines().filter(|line| line.starts_with("| `")).count();
        assert_eq!(rows, catalogue::families().count());
        assert!(
            page.lines()
                .filter(|line| line.starts_with('|'))
                .all(|line| { line.matches('|').count() == 7 })
        );
    }
}
