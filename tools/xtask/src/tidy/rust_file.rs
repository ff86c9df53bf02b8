//! Rules for one Rust source file: opening comment, lengths, module names.
//! Invariant: test code is exempt from the length rules, never from the rest.

use super::function::{functions, test_modules};
use super::mask::mask;
use super::violation::Violation;

const FILE_LINES_MAX: usize = 500;
const FILE_LINES_MAX_WITH_TESTS: usize = 800;
const FUNCTION_LINES_MAX: usize = 70;
const LINE_CHARACTERS_MAX: usize = 100;
/// Names that say nothing about what lives there.
const BANNED_MODULES: [&str; 7] =
    ["utils", "util", "common", "helpers", "types", "prelude", "misc"];

/// All broken rules of one file.
pub(super) fn check(file: &str, text: &str) -> Vec<Violation> {
    let masked = mask(text);
    let tests = test_modules(&masked);
    let mut findings = check_lines(file, text);
    findings.extend(check_opening(file, text));
    findings.extend(check_module_name(file));
    let test_lines: usize = tests.iter().map(|span| span.clone().count()).sum();
    findings.extend(check_file_length(file, text.lines().count(), test_lines));
    if is_test_file(file) {
        return findings;
    }
    for function in functions(&masked) {
        let in_tests = tests.iter().any(|span| span.contains(function.lines.start()));
        let lines = function.lines.clone().count();
        if !in_tests && lines > FUNCTION_LINES_MAX {
            let name = &function.name;
            let message =
                format!("Function {name} has {lines} lines, {FUNCTION_LINES_MAX} at most");
            findings.push(Violation::new(file, function.lines.start() + 1, message));
        }
    }
    findings
}

/// Files that hold nothing but tests.
fn is_test_file(file: &str) -> bool {
    file.contains("/tests/") || file.starts_with("tests/") || file.ends_with("/tests.rs")
}

fn check_opening(file: &str, text: &str) -> Option<Violation> {
    let opens = text.starts_with("//!") && !text.starts_with("//!\n");
    (!opens).then(|| Violation::new(file, 1, "First line must be a `//!` comment"))
}

fn check_module_name(file: &str) -> Option<Violation> {
    let name = file.rsplit('/').next().unwrap_or(file);
    if name == "mod.rs" {
        return Some(Violation::new(file, 0, "Use foo.rs beside foo/, not foo/mod.rs"));
    }
    let banned = |part: &str| BANNED_MODULES.contains(&part.trim_end_matches(".rs"));
    file.split('/').find(|part| banned(part)).map(|part| {
        Violation::new(file, 0, format!("`{part}` is not a noun that says what it owns"))
    })
}

fn check_file_length(file: &str, total: usize, tests: usize) -> Option<Violation> {
    let (lines, limit) = if is_test_file(file) || total > FILE_LINES_MAX_WITH_TESTS {
        (total, FILE_LINES_MAX_WITH_TESTS)
    } else {
        (total.saturating_sub(tests), FILE_LINES_MAX)
    };
    (lines > limit).then(|| Violation::new(file, 0, format!("{lines} lines, {limit} at most")))
}

fn check_lines(file: &str, text: &str) -> Vec<Violation> {
    let mut findings = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let characters = line.chars().count();
        // Long texts and addresses cannot be broken without harm.
        if characters > LINE_CHARACTERS_MAX && !line.contains('"') && !line.contains("://") {
            let message = format!("{characters} characters, {LINE_CHARACTERS_MAX} at most");
            findings.push(Violation::new(file, index + 1, message));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(file: &str, text: &str) -> Vec<String> {
        check(file, text).into_iter().map(|finding| finding.message).collect()
    }

    fn long_function(lines: usize) -> String {
        format!("fn long() {{\n{}}}\n", "    x();\n".repeat(lines - 2))
    }

    #[test]
    fn a_file_without_opening_comment_is_found() {
        assert_eq!(messages("a/src/b.rs", "fn f() {}\n").len(), 1);
        assert!(messages("a/src/b.rs", "//! Owns f.\nfn f() {}\n").is_empty());
    }

    #[test]
    fn a_function_of_71_lines_is_found_and_one_of_70_is_not() {
        let opening = "//! Text.\n";
        assert!(messages("a.rs", &format!("{opening}{}", long_function(70))).is_empty());
        assert_eq!(messages("a.rs", &format!("{opening}{}", long_function(71))).len(), 1);
    }

    #[test]
    fn functions_in_test_modules_may_be_long() {
        let text = format!("//! Text.\n#[cfg(test)]\nmod tests {{\n{}}}\n", long_function(90));
        assert!(messages("a.rs", &text).is_empty());
    }

    #[test]
    fn test_modules_do_not_count_towards_the_file() {
        let code = "//! Text.\n".to_owned() + &"x\n".repeat(450);
        let tests = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", "y\n".repeat(200));
        assert!(messages("a.rs", &(code.clone() + &tests)).is_empty());
        assert_eq!(messages("a.rs", &(code + &"z\n".repeat(60))).len(), 1);
        let huge = "//! Text.\n".to_owned() + &tests.replace('y', "y\ny\ny\ny\ny");
        assert_eq!(messages("a.rs", &huge).len(), 1);
    }

    #[test]
    fn module_names_that_say_nothing_are_found() {
        for name in ["a/mod.rs", "a/utils.rs", "a/common/b.rs"] {
            assert_eq!(messages(name, "//! Text.\n").len(), 1, "{name}");
        }
    }

    #[test]
    fn long_lines_are_found_unless_they_hold_a_text_or_an_address() {
        let long = "x".repeat(101);
        assert_eq!(messages("a.rs", &format!("//! Text.\n{long}\n")).len(), 1);
        assert_eq!(messages("a.rs", &format!("//! Text.\n// {long}\n")).len(), 1);
        assert!(messages("a.rs", &format!("//! Text.\n\"{long}\"\n")).is_empty());
        assert!(messages("a.rs", &format!("//! Text.\n// https://{long}\n")).is_empty());
    }
}
