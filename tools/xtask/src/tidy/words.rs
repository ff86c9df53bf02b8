//! Words that stop a reader, in text and in names.
//! Invariant: the words are put together here, so this file never finds itself.

use super::violation::Violation;

/// Archaic words, a word that hides who acts, and persons where a machine is meant; with what to
/// write instead.
const WORDS: [(&str, &str); 14] = [
    (concat!("who", "ever"), "name the one that acts"),
    (concat!("no", "body"), "say what is absent: \"no caller\", \"unused\""),
    (concat!("mean", "while"), "say during what, or leave it out"),
    (concat!("an", "ew"), "write \"again\""),
    (concat!("to", "ld"), "write \"gets\", \"reported\", \"is given\""),
    (concat!("unto", "ld"), "write \"unreported\""),
    (concat!("there", "by"), "say what causes what"),
    (concat!("where", "of"), "write \"of which\""),
    (concat!("there", "of"), "write \"of it\""),
    (concat!("among", "st"), "write \"among\""),
    (concat!("wh", "om"), "turn the sentence round"),
    (concat!("h", "e"), "a machine is \"it\""),
    (concat!("h", "im"), "a machine is \"it\""),
    (concat!("h", "is"), "a machine is \"it\""),
];
const LICENCE: &str = "LICENSE";
/// What people write here; other files quote names of the system, such as that of a user.
const WRITTEN: [&str; 10] = ["rs", "md", "py", "pyi", "sh", "toml", "yml", "yaml", "js", "html"];

/// All such words of one file.
pub(super) fn check(file: &str, text: &str) -> Vec<Violation> {
    let ending = file.rsplit('.').next().unwrap_or_default();
    if !WRITTEN.contains(&ending) || file.ends_with(LICENCE) {
        return Vec::new();
    }
    let lines = text.lines().enumerate();
    let found = lines.flat_map(|(index, line)| words(line).map(move |found| (index, found)));
    let finding = |(index, (word, remedy)): (usize, (&str, &str))| {
        Violation::new(file, index + 1, format!("\"{word}\": {remedy}"))
    };
    found.map(finding).collect()
}

/// Parts of names count as words, too.
fn words(line: &str) -> impl Iterator<Item = (&'static str, &'static str)> {
    let parts = line.split(|c: char| !c.is_alphabetic());
    parts.filter_map(|part| WORDS.into_iter().find(|(word, _)| part.eq_ignore_ascii_case(word)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found_in_text_and_in_names() {
        let word = WORDS[1].0;
        for line in [
            format!("// {word} waits"),
            format!("fn {word}_waits()"),
            format!("\"A{word}. {}\"", WORDS[1].0),
        ] {
            let found = check("a/b.rs", &format!("\n{line}\n"));
            assert_eq!(found.len(), 1, "{line}: {found:?}");
            assert_eq!(found[0].line, 2);
            assert!(found[0].message.contains(word));
        }
    }

    #[test]
    fn parts_of_other_words_and_other_files_are_left_alone() {
        assert_eq!(check("a.md", "the history of this threshold"), []);
        assert_eq!(check("Dockerfile", &format!("USER {}", WORDS[1].0)), []);
    }
}
