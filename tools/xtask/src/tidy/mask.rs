//! Rust source with the contents of strings, characters and comments blanked out.
//! Invariant: the masked text has the same length and the same line breaks as the source.

/// What the lexer is inside of.
enum LexerState {
    Code,
    LineComment,
    BlockComment { depth: usize },
    Text { hashes: Option<usize> },
}

/// Blanks everything that is not code, byte for byte.
pub(super) fn mask(source: &str) -> String {
    let bytes = source.as_bytes();
    let mut out = bytes.to_vec();
    let mut place = LexerState::Code;
    let mut at = 0;
    while at < bytes.len() {
        let (next, width, blank) = step(bytes, at, place);
        place = next;
        let end = (at + width).min(bytes.len());
        if blank {
            out[at..end].iter_mut().filter(|b| **b != b'\n').for_each(|b| *b = b' ');
        }
        at = end;
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// The place after the token at `at`, the token's width, and whether it is blanked.
fn step(bytes: &[u8], at: usize, place: LexerState) -> (LexerState, usize, bool) {
    let rest = &bytes[at..];
    match place {
        LexerState::Code => step_code(bytes, at),
        LexerState::LineComment if rest[0] == b'\n' => (LexerState::Code, 1, false),
        LexerState::LineComment => (LexerState::LineComment, 1, true),
        LexerState::BlockComment { depth } if rest.starts_with(b"*/") => {
            let outer = depth.checked_sub(1).filter(|left| *left > 0);
            (outer.map_or(LexerState::Code, |depth| LexerState::BlockComment { depth }), 2, true)
        }
        LexerState::BlockComment { depth } if rest.starts_with(b"/*") => {
            (LexerState::BlockComment { depth: depth + 1 }, 2, true)
        }
        LexerState::BlockComment { depth } => (LexerState::BlockComment { depth }, 1, true),
        LexerState::Text { hashes: None } if rest[0] == b'\\' => {
            (LexerState::Text { hashes: None }, 2, true)
        }
        LexerState::Text { hashes: None } if rest[0] == b'"' => (LexerState::Code, 1, false),
        LexerState::Text { hashes: Some(n) }
            if rest[0] == b'"' && count_hashes(&rest[1..]) >= n =>
        {
            (LexerState::Code, 1 + n, false)
        }
        LexerState::Text { hashes } => (LexerState::Text { hashes }, 1, true),
    }
}

fn step_code(bytes: &[u8], at: usize) -> (LexerState, usize, bool) {
    let rest = &bytes[at..];
    if rest.starts_with(b"//") {
        return (LexerState::LineComment, 2, true);
    }
    if rest.starts_with(b"/*") {
        return (LexerState::BlockComment { depth: 1 }, 2, true);
    }
    if rest[0] == b'"' {
        return (LexerState::Text { hashes: None }, 1, false);
    }
    let after_word = at > 0 && is_word(bytes[at - 1]);
    if rest[0] == b'r' && (!after_word || matches!(bytes[at - 1], b'b' | b'c')) {
        let hashes = count_hashes(&rest[1..]);
        if rest.get(1 + hashes) == Some(&b'"') {
            return (LexerState::Text { hashes: Some(hashes) }, 2 + hashes, false);
        }
    }
    if rest[0] == b'\'' {
        return (LexerState::Code, character_width(rest), character_width(rest) > 1);
    }
    (LexerState::Code, 1, false)
}

/// Width of a character literal, or 1 for the quote of a lifetime.
fn character_width(rest: &[u8]) -> usize {
    if rest.get(1) == Some(&b'\\') {
        let close = rest.iter().skip(3).position(|b| *b == b'\'');
        return close.map_or(1, |offset| offset + 4);
    }
    // One character may have up to four bytes.
    let close = (2..=5).find(|i| rest.get(*i) == Some(&b'\''));
    match close {
        Some(2) => 3,
        Some(i) if rest[1] >= 0x80 => i + 1,
        _ => 1,
    }
}

fn count_hashes(bytes: &[u8]) -> usize {
    bytes.iter().take_while(|b| **b == b'#').count()
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_and_comments_are_blanked_and_lines_kept() {
        let source = "let a = \"{\"; // {\n/* { /* { */ } */ b";
        let masked = mask(source);
        assert_eq!(masked.len(), source.len());
        assert_eq!(masked.lines().count(), 2);
        assert!(!masked.contains('{') && !masked.contains('}'), "{masked}");
        assert!(masked.ends_with('b'));
    }

    #[test]
    fn raw_strings_end_only_at_their_hashes() {
        let masked = mask("r#\"a \" {\"# }");
        assert!(!masked.contains('{') && masked.ends_with('}'), "{masked}");
    }

    #[test]
    fn braces_in_character_literals_do_not_count() {
        assert_eq!(mask("'{' '\\'' '\\u{7b}' x").trim(), "x");
    }

    #[test]
    fn lifetimes_are_code() {
        assert_eq!(mask("fn f<'a>(x: &'a str) {}"), "fn f<'a>(x: &'a str) {}");
    }

    #[test]
    fn an_unfinished_string_does_not_run_past_the_end() {
        assert_eq!(mask("\"abc\\").len(), 5);
    }
}
