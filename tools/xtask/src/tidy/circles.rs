//! Circles of files inside a crate: files that import each other, directly or through others.
//! Invariant: every path counts, in `use` items and in code; `mod` declarations and tests do not.

use std::collections::{BTreeMap, BTreeSet};

use super::function::test_modules;
use super::mask::mask;
use super::violation::Violation;

/// Circles in the whole repository. Lower it when one is gone; never raise it.
const CIRCLES_MAX: usize = 6;

/// The file of each module, by its path inside the crate; that of the root is empty.
type Modules<'a> = BTreeMap<&'a str, &'a str>;

/// The files of a circle, in order.
type Circle<'a> = Vec<&'a str>;

/// Findings for every circle if there are too many.
pub(super) fn check(sources: &[(String, String)]) -> Vec<Violation> {
    let circles = find(sources);
    if circles.len() <= CIRCLES_MAX {
        return Vec::new();
    }
    let count = circles.len();
    let describe = |circle: &Circle<'_>| {
        let files = circle.join(", ");
        let message = format!("{count} circles of files, {CIRCLES_MAX} at most; one is {files}");
        Violation::new(circle[0], 0, message)
    };
    circles.iter().map(describe).collect()
}

/// The circles of all crates; `sources` has the path and the text of each Rust file.
pub(super) fn find(sources: &[(String, String)]) -> Vec<Circle<'_>> {
    let mut crates: BTreeMap<&str, Modules<'_>> = BTreeMap::new();
    for (file, _) in sources {
        if let Some((folder, module)) = module_of(file) {
            let modules = crates.entry(folder).or_default();
            // A program beside a library comes second, and nothing imports it.
            modules.entry(module).or_insert(file);
        }
    }
    let texts: BTreeMap<&str, &str> =
        sources.iter().map(|(file, text)| (file.as_str(), text.as_str())).collect();
    let circles = crates.values().flat_map(|modules| {
        let imports = modules.iter().map(|(module, file)| {
            let code = code_of(texts[file]);
            let targets = paths(&code).into_iter();
            let targets = targets.filter_map(|path| target(modules, module, &path));
            (*file, targets.filter(|target| target != file).collect())
        });
        circles_of(&imports.collect())
    });
    circles.collect()
}

/// Folder of the crate, and path inside it of the module that a file holds.
fn module_of(file: &str) -> Option<(&str, &str)> {
    let (folder, inside) = file.split_once("/src/")?;
    match inside.strip_suffix(".rs")? {
        "lib" | "main" => Some((folder, "")),
        module => Some((folder, module)),
    }
}

/// The source without comments, strings and test modules.
fn code_of(text: &str) -> String {
    let masked = mask(text);
    let tests = test_modules(&masked);
    let is_code = |line: &usize| !tests.iter().any(|span| span.contains(line));
    let lines = masked.lines().enumerate();
    let kept = lines.filter(|(line, _)| is_code(line));
    kept.flat_map(|(_, line)| [line, "\n"]).collect()
}

/// Each file with all files of its circle, once per circle.
fn circles_of<'a>(imports: &BTreeMap<&'a str, BTreeSet<&'a str>>) -> Vec<Circle<'a>> {
    let reached: BTreeMap<&str, BTreeSet<&'a str>> =
        imports.keys().map(|file| (*file, reachable(imports, file))).collect();
    let mut circles = BTreeSet::new();
    for (file, others) in &reached {
        let back = others.iter().filter(|other| reached[*other].contains(file));
        let circle: Circle<'a> = back.copied().collect();
        if !circle.is_empty() {
            circles.insert(circle);
        }
    }
    circles.into_iter().collect()
}

/// What a file imports, and what that imports, and so on.
fn reachable<'a>(imports: &BTreeMap<&'a str, BTreeSet<&'a str>>, from: &str) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut open: Vec<&str> = vec![from];
    while let Some(file) = open.pop() {
        for target in imports.get(file).into_iter().flatten() {
            if reached.insert(*target) {
                open.push(target);
            }
        }
    }
    reached
}

/// The file that a path in a module leads to: that of the innermost module it names.
fn target<'a>(modules: &Modules<'a>, module: &str, path: &[&str]) -> Option<&'a str> {
    let ups = path.iter().take_while(|word| **word == "super").count();
    let mut base = module.to_owned();
    let rest = match *path.first()? {
        "crate" => {
            base.clear();
            &path[1..]
        }
        "self" => &path[1..],
        "super" => {
            for _ in 0..ups {
                base.truncate(base.rfind('/').unwrap_or_default());
            }
            &path[ups..]
        }
        child => {
            modules.get(inner(module, child).as_str())?;
            path
        }
    };
    for word in rest {
        let next = inner(&base, word);
        if !modules.contains_key(next.as_str()) {
            break;
        }
        base = next;
    }
    modules.get(base.as_str()).copied()
}

fn inner(module: &str, child: &str) -> String {
    match module {
        "" => child.to_owned(),
        module => format!("{module}/{child}"),
    }
}

/// Paths of `use` items, and those in code that begin at the crate or at a parent.
fn paths(code: &str) -> Vec<Vec<&str>> {
    let tokens = tokens(code);
    let mut paths = Vec::new();
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        let is_path = tokens.get(at + 1) == Some(&"::");
        at = match *token {
            "use" if tokens.get(at + 1) != Some(&"<") => {
                read_tree(&tokens, at + 1, &[], &mut paths)
            }
            "crate" | "super" if is_path && !is_in(&tokens, at) => {
                read_tree(&tokens, at, &[], &mut paths)
            }
            _ => at + 1,
        };
    }
    paths
}

/// Whether the path at `at` says from where an item is visible: `pub(in crate::a)`.
fn is_in(tokens: &[&str], at: usize) -> bool {
    at.checked_sub(2).is_some_and(|from| tokens[from..at] == ["(", "in"])
}

/// Reads the tree of a `use` item, or a path, from `at` on; returns where it ends.
fn read_tree<'a>(
    tokens: &[&'a str],
    mut at: usize,
    prefix: &[&'a str],
    paths: &mut Vec<Vec<&'a str>>,
) -> usize {
    let mut path = prefix.to_vec();
    while let Some(token) = tokens.get(at) {
        match *token {
            "::" => at += 1,
            "{" if tokens[at - 1] == "::" || path.is_empty() => {
                at += 1;
                while tokens.get(at).is_some_and(|token| !matches!(*token, "}" | ";")) {
                    at = read_tree(tokens, at, &path, paths).max(at + 1);
                    at += usize::from(tokens.get(at) == Some(&","));
                }
                return at + 1;
            }
            word if is_word(word) && word != "as" => {
                path.push(word);
                at += 1;
                if tokens.get(at) != Some(&"::") {
                    break;
                }
            }
            _ => break,
        }
    }
    // A new name of what is imported.
    at += 2 * usize::from(tokens.get(at) == Some(&"as"));
    paths.push(path);
    at
}

/// Words, `::` and single marks.
fn tokens(code: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = code.trim_start();
    while let Some(first) = rest.chars().next() {
        let word = rest.find(|c: char| !is_word_character(c));
        let width = match word.unwrap_or(rest.len()) {
            0 if rest.starts_with("::") => 2,
            0 => first.len_utf8(),
            width => width,
        };
        let (token, after) = rest.split_at(width);
        tokens.push(token);
        rest = after.trim_start();
    }
    tokens
}

fn is_word(token: &str) -> bool {
    token.chars().all(is_word_character)
}

fn is_word_character(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn circles(files: &[(&str, &str)]) -> Vec<String> {
        let own = |(file, text): &(&str, &str)| (format!("c/src/{file}"), (*text).to_owned());
        let sources: Vec<(String, String)> = files.iter().map(own).collect();
        let circles = find(&sources);
        let joined = circles.iter().map(|circle| circle.join(" "));
        joined.map(|files| files.replace("c/src/", "")).collect()
    }

    #[test]
    fn files_that_import_each_other_through_a_third_are_one_circle() {
        let found = circles(&[
            ("lib.rs", "mod a; mod b; mod c; mod d;\n"),
            ("a.rs", "use crate::b::B;\n"),
            ("b.rs", "use super::{c::C as Other, d::*};\n"),
            ("c.rs", "fn f() { crate::a::f(); }\n"),
            ("d.rs", "use std::fmt;\n"),
        ]);
        assert_eq!(found, ["a.rs b.rs c.rs"]);
    }

    #[test]
    fn a_declared_module_may_import_its_parent() {
        let declared = ("a.rs", "pub mod b;\n");
        let child = ("a/b.rs", "use super::A;\n");
        assert!(circles(&[("lib.rs", "mod a;\n"), declared, child]).is_empty());
        for import in ["pub use b::B;\n", "use self::b::B;\n", "use {b::B, std::fmt};\n"] {
            let found = circles(&[("lib.rs", "mod a;\n"), ("a.rs", import), child]);
            assert_eq!(found, ["a.rs a/b.rs"], "{import}");
        }
    }

    #[test]
    fn the_root_of_a_crate_is_a_file_like_others() {
        let found = circles(&[("main.rs", "mod a;\nuse a::A;\n"), ("a.rs", "use crate::Error;\n")]);
        assert_eq!(found, ["a.rs main.rs"]);
    }

    #[test]
    fn tests_comments_and_texts_import_nothing() {
        let tests = "#[cfg(test)]\nmod tests {\n    use crate::a::A;\n}\n";
        let code = format!("// use crate::a::A;\nconst TEXT: &str = \"use crate::a;\";\n{tests}");
        let files = [("lib.rs", "mod a;"), ("a.rs", "use super::b::B;"), ("b.rs", &code)];
        assert!(circles(&files).is_empty());
    }

    #[test]
    fn where_an_item_is_visible_is_no_import() {
        let files =
            [("lib.rs", "mod a;"), ("a.rs", "use b::B;"), ("a/b.rs", "pub(in crate::a) struct B;")];
        assert!(circles(&files).is_empty());
    }

    #[test]
    fn files_of_two_crates_are_in_no_circle() {
        let sources = [
            ("x/src/a.rs".to_owned(), "use crate::b::B;".to_owned()),
            ("y/src/b.rs".to_owned(), "use crate::a::A;".to_owned()),
        ];
        assert!(find(&sources).is_empty());
    }

    #[test]
    fn more_circles_than_the_limit_are_findings_and_as_many_are_not() {
        let circle = |number: usize| {
            let file = |name: &str, other: &str| {
                let text = format!("use crate::{other}{number}::X;\n");
                (format!("c/src/{name}{number}.rs"), text)
            };
            [file("a", "b"), file("b", "a")]
        };
        let up_to = |count: usize| (0..count).flat_map(circle).collect::<Vec<_>>();
        assert!(check(&up_to(CIRCLES_MAX)).is_empty());
        let findings = check(&up_to(CIRCLES_MAX + 1));
        assert_eq!(findings.len(), CIRCLES_MAX + 1, "each circle is shown");
        assert!(findings[0].message.contains("c/src/a0.rs, c/src/b0.rs"));
    }
}
