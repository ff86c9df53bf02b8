//! Reading a list: one entry per line, fields separated by single spaces, `#` starts a comment
//! line.
//! Invariant: the last field takes the rest of the line.

/// Entries of `text`, each with exactly `N` fields.
pub(crate) fn entries<const N: usize>(text: &'static str) -> Vec<[&'static str; N]> {
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| {
            let fields: Vec<&str> = line.splitn(N, ' ').collect();
            <[&str; N]>::try_from(fields).expect("every line of a list has all fields")
        })
        .collect()
}

#[test]
fn the_last_field_takes_the_rest_of_the_line() {
    let expected = [["a", "b", "\"4 GB\""], ["c", "d", "e"]];
    assert_eq!(entries::<3>("# name\na b \"4 GB\"\n\nc d e\n"), expected);
}
