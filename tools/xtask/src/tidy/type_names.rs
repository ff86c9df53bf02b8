//! Names of types: a name that many files define says nothing where it is used.
//! Invariant: what counts is a struct, enum, union, trait or alias at the margin of a file that is
//! delivered; associated types, tests, examples and generated code do not count.

use super::mask::mask;
use super::violation::Violation;
use std::collections::{BTreeMap, BTreeSet};

/// Names that two files or more may define.
const REPEATED_MAX: usize = 60;
const KINDS: [&str; 5] = ["struct", "enum", "union", "trait", "type"];
/// Folders and files whose types are not delivered.
const NOT_DELIVERED: [&str; 4] = ["tests", "tests.rs", "examples", "benches"];

/// Which files define each name.
#[derive(Default)]
pub(super) struct TypeNames(BTreeMap<String, BTreeSet<String>>);

impl TypeNames {
    /// Adds the types of one Rust file.
    pub(super) fn add(&mut self, file: &str, text: &str) {
        if file.split('/').any(|part| NOT_DELIVERED.contains(&part)) {
            return;
        }
        for name in mask(text).lines().filter_map(defined) {
            let files = self.0.entry(name.to_owned()).or_default();
            files.insert(file.to_owned());
        }
    }

    /// One finding with the whole list if too many names are repeated.
    pub(super) fn check(&self) -> Vec<Violation> {
        let repeated: Vec<_> = self.0.iter().filter(|(_, files)| files.len() > 1).collect();
        if repeated.len() <= REPEATED_MAX {
            return Vec::new();
        }
        let lines = repeated.iter().map(|(name, files)| {
            let files: Vec<_> = files.iter().map(String::as_str).collect();
            format!("\n  {name}: {}", files.join(", "))
        });
        let message = format!(
            "{} names of types are defined in more than one file; {REPEATED_MAX} may be. Rename some of:{}",
            repeated.len(),
            lines.collect::<String>()
        );
        let first = repeated[0].1.first().map_or("", String::as_str);
        vec![Violation::new(first, 0, message)]
    }
}

/// The type that a line at the margin defines.
fn defined(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("pub").map_or(line, after_visibility);
    let rest = rest.trim_start_matches("unsafe ");
    let (kind, rest) = rest.split_once(' ')?;
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_');
    KINDS.contains(&kind).then(|| &rest[..end.unwrap_or(rest.len())])
}

/// What follows `pub` or `pub(...)`.
fn after_visibility(rest: &str) -> &str {
    let scope = rest.strip_prefix('(').and_then(|rest| rest.split_once(')'));
    scope.map_or(rest, |(_, rest)| rest).trim_start()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<String> {
        let mut names = TypeNames::default();
        names.add("a/src/a.rs", text);
        names.0.into_keys().collect()
    }

    #[test]
    fn types_at_the_margin_are_found_with_any_visibility() {
        let text = "struct A;\npub enum B {}\npub(crate) type C<T> = T;\npub(in crate::x) unsafe trait D {}\n";
        assert_eq!(names(text), ["A", "B", "C", "D"]);
    }

    #[test]
    fn associated_types_text_and_inner_modules_do_not_count() {
        let text =
            "impl A {\n    type B = C;\n}\n/*\nstruct D;\n*/\nmod tests {\n    struct E;\n}\n";
        assert_eq!(names(text), [""; 0]);
    }

    #[test]
    fn only_delivered_files_count() {
        let mut names = TypeNames::default();
        for file in ["tests/src/a.rs", "a/src/b/tests.rs", "a/examples/a.rs"] {
            names.add(file, "struct A;\n");
        }
        assert!(names.0.is_empty());
    }

    #[test]
    fn as_many_names_as_allowed_pass_and_one_more_is_listed() {
        let mut names = TypeNames::default();
        let text =
            |count| (0..count).map(|number| format!("struct A{number};\n")).collect::<String>();
        names.add("a/src/a.rs", &text(REPEATED_MAX + 1));
        names.add("b/src/b.rs", &text(REPEATED_MAX));
        assert_eq!(names.check(), []);
        names.add("b/src/b.rs", &text(REPEATED_MAX + 1));
        let found = names.check();
        assert_eq!(found.len(), 1);
        assert!(
            found[0].message.contains("\n  A60: a/src/a.rs, b/src/b.rs"),
            "{}",
            found[0].message
        );
    }
}
