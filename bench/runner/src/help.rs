//! Help texts of the bench tools. Invariant: examples come before the settings.

/// A program's help with examples after its first line; a version text stays as it is.
#[must_use]
pub(crate) fn with_examples(text: &str, examples: &[&str]) -> String {
    let Some((summary, rest)) = text.split_once("\n\n") else {
        return text.to_owned();
    };
    let lines: String = examples.iter().map(|line| format!("  {line}\n")).collect();
    format!("{summary}\n\nExamples:\n{lines}\n{rest}")
}
