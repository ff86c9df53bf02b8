//! Words that stop a reader, in text and in names.
//! Invariant: the words are put together here, so this file never finds itself.

use super::violation::Violation;

/// Archaic words, a word that hides who acts, and persons where a machine is meant; with what to
/// write instead.
const WORDS: [(&str, &str); 21] = [
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
    (concat!("some", "body"), "name the program or part that acts"),
    (concat!("any", "body"), "name the program or part: \"any client\""),
    (concat!("every", "body"), "say all of what: \"all hosts\""),
    (concat!("every", "one"), "say all of what: \"all hosts\""),
    (concat!("sh", "all"), "write what happens, or \"must\""),
    (concat!("up", "on"), "write \"on\", or turn the sentence round"),
    (concat!("hen", "ce"), "write \"so\" and the consequence"),
];
/// The same for words that are such only together; in a name `_` joins them.
const PHRASES: [(&str, &str); 5] = [
    (concat!("no ", "one"), "say what is absent: \"no client\""),
    (concat!("in ", "vain"), "say what does not happen"),
    (concat!("to be ", "had"), "say what cannot be allocated, started or opened"),
    (concat!("of be", "fore"), "write \"earlier\""),
    (concat!("for so ", "long"), "name the length"),
];
const LICENCE: &str = "LICENSE";
/// What people write here; other files quote names of the system, such as that of a user.
const WRITTEN: [&str; 17] = [
    "rs", "md", "py", "pyi", "sh", "toml", "yml", "yaml", "js", "html", "c", "h", "go", "fbs",
    "json", "txt", "service",
];
const MAKEFILE: &str = "Makefile";
/// Written by programs or by others: seeds, Mooncake's names, a container's profile, advisories.
const RECORDED: [&str; 5] = [
    "/corpus/",
    "/proptest-regressions/",
    "tests/compat/lists/",
    "tests/containers/seccomp.json",
    "tools/advisories/",
];

/// All such words of one file.
pub(super) fn check(file: &str, text: &str) -> Vec<Violation> {
    if !is_written(file) {
        return Vec::new();
    }
    let lines = text.lines().enumerate();
    let found = lines.flat_map(|(index, line)| {
        words(line).chain(phrases(line)).map(move |found| (index, found))
    });
    let finding = |(index, (word, remedy)): (usize, (&str, &str))| {
        Violation::new(file, index + 1, format!("\"{word}\": {remedy}"))
    };
    found.map(finding).collect()
}

fn is_written(file: &str) -> bool {
    let name = file.rsplit('/').next().unwrap_or_default();
    let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
    (WRITTEN.contains(&ending) || name == MAKEFILE)
        && !file.ends_with(LICENCE)
        && !RECORDED.iter().any(|recorded| file.contains(recorded))
}

/// Parts of names count as words, too.
fn words(line: &str) -> impl Iterator<Item = (&'static str, &'static str)> {
    let parts = line.split(|c: char| !c.is_alphabetic());
    parts.filter_map(|part| WORDS.into_iter().find(|(word, _)| part.eq_ignore_ascii_case(word)))
}

/// Phrases whose words stand one behind the other in a line.
fn phrases(line: &str) -> impl Iterator<Item = (&'static str, &'static str)> {
    let plain = format!(" {} ", line.to_ascii_lowercase().replace('_', " "));
    PHRASES.into_iter().filter(move |(phrase, _)| {
        plain.match_indices(phrase).any(|(at, _)| {
            let before = plain[..at].chars().next_back();
            let behind = plain[at + phrase.len()..].chars().next();
            ![before, behind].into_iter().flatten().any(char::is_alphanumeric)
        })
    })
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
    fn phrases_are_found_in_text_and_in_names() {
        let phrase = PHRASES[1].0;
        for line in [
            format!("/* It waits {}. */", phrase.to_ascii_uppercase()),
            format!("fn waits_{}()", phrase.replace(' ', "_")),
            format!("{phrase} it waits"),
        ] {
            for file in ["a/b.c", "a/Makefile", "a/b.fbs"] {
                let found = check(file, &line);
                assert_eq!(found.len(), 1, "{file} {line}: {found:?}");
                assert!(found[0].message.contains(phrase));
            }
        }
    }

    #[test]
    fn parts_of_other_words_and_other_files_are_left_alone() {
        assert_eq!(check("a.md", "the history of this threshold; no ones and tens"), []);
        assert_eq!(check("Dockerfile", &format!("USER {}", WORDS[1].0)), []);
        assert_eq!(check("tests/compat/lists/a.txt", WORDS[1].0), []);
    }
}
