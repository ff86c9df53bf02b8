//! Query parameters. Invariant: a malformed query is a missing parameter, never an error page of
//! the framework.

/// Value of one parameter, decoded; `None` when absent. The first of several counts.
pub(crate) fn parameter(query: Option<&str>, name: &str) -> Option<String> {
    parameters(query, name).next()
}

/// All values of one parameter, decoded.
pub(crate) fn parameters<'a>(
    query: Option<&'a str>,
    name: &'a str,
) -> impl Iterator<Item = String> + 'a {
    let pairs = query.unwrap_or_default().split('&').filter_map(|pair| pair.split_once('='));
    pairs.filter(move |(key, _)| decode(key) == name).map(|(_, value)| decode(value))
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
        let all: Vec<_> = parameters(Some("a=1&%61=2&b=3"), "a").collect();
        assert_eq!(all, ["1", "2"]);
        assert_eq!(filled_parameter(Some("a="), "a"), None);
    }
}
