//! Tables for people. Invariant: columns are as wide as their widest cell, so long names never
//! break a table, and no line ends with blanks.

/// Lines with aligned columns, each after `indent` blanks.
pub(crate) fn aligned<const N: usize>(indent: usize, rows: &[[String; N]]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: [usize; N] = std::array::from_fn(|column| width(column).unwrap_or(0));
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().zip(widths);
        let cells: Vec<String> = cells.map(|(cell, width)| format!("{cell:<width$}")).collect();
        text.push_str(&" ".repeat(indent));
        text.push_str(cells.join("  ").trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_padded_and_lines_trimmed() {
        let row = |one: &str, two: &str| [one.to_owned(), two.to_owned()];
        let text = aligned(2, &[row("A", "B"), row("long", ""), row("", "x")]);
        assert_eq!(text, "  A     B\n  long\n        x\n");
    }
}
