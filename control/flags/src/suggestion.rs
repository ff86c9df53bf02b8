//! The "did you mean" rule. Invariant: a suggestion is always a name that would be accepted.

/// Closest of `known` to `written`, when it is close enough to be a likely slip.
#[must_use]
pub fn nearest<'a>(written: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let slip_max = (written.len() / 3).clamp(1, 6);
    known
        .into_iter()
        .map(|name| (distance(written, name), name))
        .filter(|(slip, _)| *slip <= slip_max)
        .min()
        .map(|(_, name)| name)
}

/// Edits between two names; a missing or extra word at one end counts as one edit.
fn distance(written: &str, name: &str) -> usize {
    let edits = strsim::damerau_levenshtein(written, name);
    let contained = |long: &str, short: &str| {
        long.strip_prefix(short).is_some_and(|rest| rest.starts_with('_'))
            || long.strip_suffix(short).is_some_and(|rest| rest.ends_with('_'))
    };
    if edits > 1 && (contained(written, name) || contained(name, written)) {
        return 1;
    }
    edits
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [&str; 4] = ["rpc_port", "metrics_port", "eviction_ratio", "client_ttl"];

    #[test]
    fn a_slip_of_a_letter_is_recognised() {
        assert_eq!(nearest("rcp_port", NAMES), Some("rpc_port"));
        assert_eq!(nearest("evictoin_ratio", NAMES), Some("eviction_ratio"));
    }

    #[test]
    fn a_missing_word_is_recognised() {
        assert_eq!(nearest("client_ttl_sec", NAMES), Some("client_ttl"));
    }

    #[test]
    fn an_unrelated_name_gets_no_suggestion() {
        assert_eq!(nearest("zz", NAMES), None);
        assert_eq!(nearest("kubernetes", NAMES), None);
    }
}
