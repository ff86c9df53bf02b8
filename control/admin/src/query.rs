//! Query parameters. Invariant: a malformed query is a missing parameter, never an error page of
//! the framework.

/// Value of one parameter, decoded; `None` when absent.
pub(crate) fn parameter(query: Option<&str>, name: &str) -> Option<String> {
    let pairs = query?.split('&').filter_map(|pair| pair.split_once('='));
    let (_, value) = pairs.into_iter().find(|(key, _)| *key == name)?;
    Some(decode(value))
}

/// Value of one parameter, decoded; `None` when absent or empty.
pub(crate) fn filled_parameter(query: Option<&str>, name: &str) -> Option<String> {
    parameter(query, name).filter(|value| !value.is_empty())
}

/// Decodes percent escapes and `+`; broken escapes stay as they are.
fn decode(written: &str) -> String {
    let mut bytes = Vec::with_capacity(written.len());
    let mut rest = written.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let escape = tail.get(..2).filter(|_| first == b'%').and_then(|digits| {
            let plain = digits.iter().all(u8::is_ascii_hexdigit);
            let digits = std::str::from_utf8(digits).ok().filter(|_| plain)?;
            u8::from_str_radix(digits, 16).ok()
        });
        bytes.push(escape.unwrap_or(if first == b'+' { b' ' } else { first }));
        rest = if escape.is_some() { &tail[2..] } else { tail };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_found_and_decoded() {
        let query = Some("a=1&keys=x%2Cy+z%zz&b");
        assert_eq!(parameter(query, "keys").as_deref(), Some("x,y z%zz"));
        assert_eq!(parameter(query, "b"), None);
        assert_eq!(parameter(None, "a"), None);
        assert_eq!(filled_parameter(Some("a="), "a"), None);
    }
}
