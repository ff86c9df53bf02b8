//! Where functions and test modules begin and end, by matching braces in masked source.
//! Invariant: spans are whole lines, counted from 0, last line included.

use std::ops::RangeInclusive;

/// One function with its lines.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Function {
    pub(super) name: String,
    pub(super) lines: RangeInclusive<usize>,
}

/// All functions that have a body, in order of appearance.
pub(super) fn functions(masked: &str) -> Vec<Function> {
    let mut found = Vec::new();
    for (at, _) in masked.match_indices("fn ") {
        let word_start = at == 0 || !is_word(masked.as_bytes()[at - 1]);
        let name: String =
            masked[at + 3..].chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        if !word_start || name.is_empty() {
            continue;
        }
        if let Some((_, close)) = body(&masked[at..]) {
            let first = line_of(masked, at);
            found.push(Function { name, lines: first..=line_of(masked, at + close) });
        }
    }
    found
}

/// Lines of modules that are compiled for tests only.
pub(super) fn test_modules(masked: &str) -> Vec<RangeInclusive<usize>> {
    let mut found = Vec::new();
    for (at, mark) in masked.match_indices("#[cfg(test)]") {
        let rest = &masked[at + mark.len()..];
        if !is_module(rest) {
            continue;
        }
        if let Some((_, close)) = body(rest) {
            let last = line_of(masked, at + mark.len() + close);
            found.push(line_of(masked, at)..=last);
        }
    }
    found
}

/// Whether a module follows, after further attributes and its visibility.
fn is_module(text: &str) -> bool {
    let mut rest = text.trim_start();
    while let Some(attribute) = rest.strip_prefix("#[") {
        let close = attribute.find("]\n").map_or(attribute.len(), |close| close + 1);
        rest = attribute[close..].trim_start();
    }
    if let Some(visible) = rest.strip_prefix("pub") {
        let scope = visible.strip_prefix('(').and_then(|scope| scope.split_once(')'));
        rest = scope.map_or(visible, |(_, item)| item).trim_start();
    }
    rest.starts_with("mod ")
}

/// Offsets of the first `{` and its `}`, unless the item ends with `;` before.
fn body(text: &str) -> Option<(usize, usize)> {
    let mut open = None;
    let mut braces = 0usize;
    let mut others = 0usize;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'(' | b'[' => others += 1,
            b')' | b']' => others = others.saturating_sub(1),
            b';' if braces == 0 && others == 0 => return None,
            b'{' => {
                open.get_or_insert(at);
                braces += 1;
            }
            b'}' => {
                braces = braces.checked_sub(1)?;
                if braces == 0 {
                    return open.map(|first| (first, at));
                }
            }
            _ => {}
        }
    }
    None
}

fn line_of(text: &str, at: usize) -> usize {
    text.as_bytes()[..at].iter().filter(|b| **b == b'\n').count()
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_spans_from_its_name_to_its_last_brace() {
        let found = functions("fn one() {\n  if x {\n  }\n}\nfn two();\n");
        assert_eq!(found, [Function { name: "one".into(), lines: 0..=3 }]);
    }

    #[test]
    fn function_types_and_words_ending_in_fn_are_no_functions() {
        assert!(functions("let f: fn () = g; let myfn = 1; { }").is_empty());
    }

    #[test]
    fn array_lengths_in_signatures_do_not_end_the_item() {
        assert_eq!(functions("fn a(x: [u8; 4]) -> [u8; 2] {\n}").len(), 1);
    }

    #[test]
    fn test_modules_with_a_body_are_found_and_file_modules_are_not() {
        let text = "a\n#[cfg(test)]\nmod tests {\n  x\n}\n#[cfg(test)]\nmod far;\n";
        assert_eq!(test_modules(text), [1..=4]);
        let text = "#[cfg(test)]\n#[expect(a, reason = b)]\npub(crate) mod tests {\n}\n";
        assert_eq!(test_modules(text), [0..=3]);
    }
}
