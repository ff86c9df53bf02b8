//! Each query asks for the cluster that is chosen at the top of its dashboard. Written once here
//! instead of in every query.
//! Invariant: nothing but selectors of series changes.

use super::query::{is_series, without_strings};

/// The label by which a scrape tells clusters apart; without it, all is one cluster.
pub(super) const CLUSTER: &str = "cluster";

/// The query with the chosen cluster in the selector of every series.
pub(super) fn chosen(expr: &str) -> String {
    let plain = without_strings(expr);
    debug_assert_eq!(plain.len(), expr.len(), "queries are ASCII");
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':' || c == '$';
    let mut written = String::with_capacity(expr.len() * 2);
    let mut at = 0;
    while let Some(begin) = plain[at..].find(is_word).map(|found| at + found) {
        let end = plain[begin..].find(|c| !is_word(c)).map_or(plain.len(), |len| begin + len);
        written.push_str(&expr[at..end]);
        at = end;
        if !is_series(&plain[begin..end]) {
            continue;
        }
        let selector = format!("{CLUSTER}=~\"${CLUSTER}\"");
        if plain[end..].starts_with('{') {
            at = end + 1;
            let more = if plain[at..].starts_with('}') { "" } else { "," };
            written.push_str(&format!("{{{selector}{more}"));
        } else {
            written.push_str(&format!("{{{selector}}}"));
        }
    }
    written.push_str(&expr[at..]);
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_series_is_of_the_chosen_cluster() {
        for (expr, wanted) in [
            ("sum(perigee_ready)", r#"sum(perigee_ready{cluster=~"$cluster"})"#),
            (
                r#"rate(perigee_nic_up{device="perigee_ready"}[1m])"#,
                r#"rate(perigee_nic_up{cluster=~"$cluster",device="perigee_ready"}[1m])"#,
            ),
            (
                "a:perigee_b:rate1m / up{}",
                r#"a:perigee_b:rate1m{cluster=~"$cluster"} / up{cluster=~"$cluster"}"#,
            ),
            (
                "sum by (le) (rate(perigee_flow_latency_seconds_bucket[1m])) or vector(0)",
                r#"sum by (le) (rate(perigee_flow_latency_seconds_bucket{cluster=~"$cluster"}[1m])) or vector(0)"#,
            ),
        ] {
            assert_eq!(chosen(expr), wanted);
        }
    }
}
