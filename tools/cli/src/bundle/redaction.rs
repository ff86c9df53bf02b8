//! Takes object keys and secrets out of a text. Invariant: it would rather take too much than too
//! little, and marks where it took something.

/// Stands where something was.
const REMOVED: &str = "[removed]";

/// Words of a name whose value is a secret or an object key.
const GUARDED: &[&str] = &[
    "secret",
    "secrets",
    "token",
    "password",
    "passwd",
    "pwd",
    "passphrase",
    "credential",
    "credentials",
    "authorization",
    "auth",
    "cookie",
    "key",
    "keys",
    "object",
    "objects",
    "apikey",
    "accesskey",
    "privatekey",
];

/// Words that guard the rest of the line: their value has several words.
const LONG: &[&str] = &["authorization", "cookie"];

/// The text without them.
pub(super) fn redacted(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut is_private = false;
    for line in text.split_inclusive('\n') {
        if line.contains("-----BEGIN ") && line.contains("PRIVATE KEY") {
            is_private = true;
            clean.push_str(REMOVED);
            clean.push('\n');
        }
        if !is_private {
            clean.push_str(&without_values(&without_passwords_of_urls(line)));
        }
        is_private &= !line.contains("-----END ");
    }
    clean
}

/// `scheme://user:password@host` without what stands before the host.
fn without_passwords_of_urls(line: &str) -> String {
    let mut clean = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(at) = rest.find("://") {
        let (head, tail) = rest.split_at(at + 3);
        clean.push_str(head);
        let end = tail.find(|letter: char| letter.is_whitespace() || "/\"'?#".contains(letter));
        let host = &tail[..end.unwrap_or(tail.len())];
        match host.rfind('@') {
            Some(sign) => {
                clean.push_str(REMOVED);
                rest = &tail[sign..];
            }
            None => rest = tail,
        }
    }
    clean.push_str(rest);
    clean
}

/// `name=value`, `name: value`, `"name":"value"` and `--name value` without guarded values.
fn without_values(line: &str) -> String {
    let mut clean = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(begin) = rest.find(is_of_name) {
        let length = rest[begin..].find(|letter| !is_of_name(letter)).unwrap_or(rest.len() - begin);
        let (head, tail) = rest.split_at(begin + length);
        let name = &head[begin..];
        clean.push_str(head);
        rest = tail;
        if let Some(gap) = separator(name, tail).filter(|_| has(name, GUARDED))
            && let Some(taken) = value(&tail[gap..], has(name, LONG))
            && !is_count(name, &tail[gap..gap + taken])
        {
            clean.push_str(&tail[..gap]);
            clean.push_str(REMOVED);
            rest = &tail[gap + taken..];
        }
    }
    clean.push_str(rest);
    clean
}

fn is_of_name(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || "_-.".contains(letter)
}

/// Whether one of the words of a name is in the list; `accessKey` has the words `access` and `key`.
fn has(name: &str, list: &[&str]) -> bool {
    let mut words = vec![String::new()];
    let mut was_small = false;
    for letter in name.chars() {
        if !letter.is_ascii_alphanumeric() || letter.is_ascii_uppercase() && was_small {
            words.push(String::new());
        }
        was_small = letter.is_ascii_lowercase();
        if let Some(word) = words.last_mut().filter(|_| letter.is_ascii_alphanumeric()) {
            word.push(letter.to_ascii_lowercase());
        }
    }
    words.iter().any(|word| list.contains(&word.as_str()))
}

/// Length of what stands between a name and its value; `None` if no value follows.
fn separator(name: &str, tail: &str) -> Option<usize> {
    let quote = usize::from(tail.starts_with(['"', '\'']));
    let blanks = |text: &str| text.len() - text.trim_start_matches([' ', '\t']).len();
    let before = quote + blanks(&tail[quote..]);
    if tail[before..].starts_with(['=', ':']) {
        return Some(before + 1 + blanks(&tail[before + 1..]));
    }
    (name.starts_with("--") && quote == 0 && before > 0).then_some(before)
}

/// Length of a value; `None` if there is none.
fn value(text: &str, is_long: bool) -> Option<usize> {
    let line = text.trim_end_matches(['\n', '\r']);
    if let Some(quote) = line.chars().next().filter(|letter| "\"'`".contains(*letter)) {
        let mut is_escaped = false;
        for (at, letter) in line.char_indices().skip(1) {
            if letter == quote && !is_escaped {
                return Some(at + 1);
            }
            is_escaped = letter == '\\' && !is_escaped;
        }
        return Some(line.len());
    }
    let end = match is_long {
        true => line.len(),
        false => line
            .find(|letter: char| letter.is_whitespace() || ",;)}&".contains(letter))
            .unwrap_or(line.len()),
    };
    Some(end).filter(|length| *length > 0)
}

/// `keys=12` counts keys and is none.
fn is_count(name: &str, value: &str) -> bool {
    let counts = has(name, &["keys", "objects"]);
    counts && value.chars().all(|letter| letter.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_guarded_names_go_however_they_are_written() {
        for (line, clean) in [
            (
                "WARN Bytes were refused key=user-7/prefix segment=a",
                "WARN Bytes were refused key=[removed] segment=a",
            ),
            ("key=\"with blank \\\" and quote\" segment=a", "key=[removed] segment=a"),
            (
                r#"{"key":"k1","keys": "k2","bytes":7}"#,
                r#"{"key":[removed],"keys": [removed],"bytes":7}"#,
            ),
            ("AWS_SECRET_ACCESS_KEY=abc/def+g", "AWS_SECRET_ACCESS_KEY=[removed]"),
            ("accessKey: abc, region: x", "accessKey: [removed], region: x"),
            ("node --auth_token abc --port 1", "node --auth_token [removed] --port 1"),
            ("Authorization: Bearer abc def", "Authorization: [removed]"),
            ("password = hunter2", "password = [removed]"),
            ("?token=abc&x=1", "?token=[removed]&x=1"),
            ("redis://me:hunter2@10.0.0.1:6379/0", "redis://[removed]@10.0.0.1:6379/0"),
        ] {
            assert_eq!(redacted(line), clean);
        }
    }

    #[test]
    fn what_is_harmless_stays_as_it_is() {
        for line in [
            "keys=12 objects=3 evicted=4\n",
            "monkey=1 tokens=512 keyboard: on\n",
            "http://10.0.0.1:9305/snapshot.json\n",
            "1 2 3 \u{e4}\u{f6} key\n",
            "",
        ] {
            assert_eq!(redacted(line), line);
        }
    }

    #[test]
    fn a_private_key_goes_line_by_line() {
        let text =
            "a\n-----BEGIN RSA PRIVATE KEY-----\nabc\ndef\n-----END RSA PRIVATE KEY-----\nb\n";
        assert_eq!(redacted(text), "a\n[removed]\nb\n");
    }
}
