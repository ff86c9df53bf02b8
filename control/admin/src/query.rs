//! Query parameters. Invariant: a malformed query is a missing parameter, never an error page of
//! the framework.

use crate::{answer, parameters};
use axum::response::Response;

/// Characters of an unknown parameter that an answer repeats.
const SHOWN_CHARACTERS: usize = 64;

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

/// What is wrong with a query.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Flaw(String);

impl From<Flaw> for Response {
    fn from(Flaw(message): Flaw) -> Self {
        answer::invalid(&message)
    }
}

/// Judges the query of a request to `path` that changes something: it may have no parameter without
/// a value, and none that the route does not know. A variable of a script that is not set, or a
/// slip of the pen, must not widen what such a request is about.
pub(crate) fn check_change(path: &str, query: Option<&str>) -> Result<(), Flaw> {
    check(query, &parameters::known(path).unwrap_or_default())
}

fn check(query: Option<&str>, known: &[&str]) -> Result<(), Flaw> {
    written(query).find_map(|pair| flaw_of(pair, known)).map_or(Ok(()), |flaw| Err(Flaw(flaw)))
}

/// The parameters of a query as they are written.
fn written(query: Option<&str>) -> impl Iterator<Item = &str> {
    query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty())
}

/// Judges the query of a request that reads: it may have no parameter that the route does not know,
/// but the one that was `judged` before.
pub(crate) fn check_names(query: Option<&str>, known: &[&str], judged: &str) -> Result<(), Flaw> {
    let name = |pair: &str| decode(pair.split_once('=').unwrap_or((pair, "")).0);
    let is_unknown = |name: &String| name != judged && !known.contains(&name.as_str());
    let unknown = written(query).map(name).find(is_unknown);
    unknown.map_or(Ok(()), |name| Err(Flaw(unknown_parameter(&name, "", known))))
}

fn flaw_of(pair: &str, known: &[&str]) -> Option<String> {
    let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
    let name = decode(name);
    if known.contains(&name.as_str()) {
        return value.is_empty().then(|| {
            format!("{name} has no value, so nothing is changed: give it one or leave it out")
        });
    }
    Some(unknown_parameter(&name, ", so nothing is changed", known))
}

fn unknown_parameter(name: &str, outcome: &str, known: &[&str]) -> String {
    let known = match known {
        [] => "none".to_owned(),
        known => known.join(" and "),
    };
    let name: String = name.chars().take(SHOWN_CHARACTERS).collect();
    format!("No parameter {name:?} here{outcome}: the known ones are {known}")
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

    #[test]
    fn a_change_takes_known_parameters_with_values_only() {
        let known = ["force", "tenant_id"];
        for good in [None, Some(""), Some("force=true"), Some("f%6Frce=1&tenant_id=red&")] {
            assert_eq!(check(good, &known), Ok(()), "{good:?}");
        }
        for (query, word) in [
            ("tenant_id=", "tenant_id has no value"),
            ("tenant_id", "tenant_id has no value"),
            ("force=true&tenant%5Fid", "tenant_id has no value"),
            ("tenant=x", "\"tenant\""),
            ("Tenant_id=x", "\"Tenant_id\""),
            ("tenant_id%3Dred", "\"tenant_id=red\""),
            ("=red", "\"\""),
        ] {
            let Flaw(found) = check(Some(query), &known).expect_err(query);
            assert!(found.contains(word), "{query}: {found}");
        }
        assert!(check(Some("a=1"), &[]).expect_err("a flaw").0.ends_with("none"));
    }
}
