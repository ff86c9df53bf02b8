//! The catalogue as a Markdown table for the documentation. Invariant: the page is generated, so
//! it cannot differ from what is served.

use crate::catalogue;
use crate::family::{Source, Stability};
use std::fmt::Write as _;

/// The page text: one table per program.
#[must_use]
pub fn catalogue_markdown() -> String {
    let mut page = String::from("# Metrics\n\nGenerated from the catalogue; do not edit.\n");
    for (source, title) in [
        (Source::Master, "Master"),
        (Source::Client, "Clients and nodes"),
        (Source::Agent, "Agent"),
    ] {
        let _ = write!(
            page,
            "\n## {title}\n\n| name | kind | unit | labels | status | meaning |\n|---|---|---|---|---|---|\n"
        );
        for family in catalogue::families().filter(|family| family.source == source) {
            let status = match family.stability {
                Stability::Mooncake => "Mooncake's name",
                Stability::MooncakeZero => "Mooncake's name, always 0: feature not built",
                Stability::Stable => "stable",
            };
            let _ = writeln!(
                page,
                "| `{}` | {} | {} | {} | {status} | {} |",
                family.name,
                family.kind.word(),
                family.unit,
                family.labels.join(", "),
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
