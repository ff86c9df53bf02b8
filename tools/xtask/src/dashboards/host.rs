//! Numbers of hosts are not mixed up: eth0 of one host has nothing to do with eth0 of another.

use super::query::{family, without_strings, words};
use perigee_metrics::MetricSource;
use std::collections::BTreeSet;

const AGGREGATES: [&str; 9] =
    ["sum", "min", "max", "avg", "count", "quantile", "stddev", "topk", "bottomk"];
/// The label of the host, as a scrape adds it.
const HOST: &str = "instance";

/// Where a query over numbers of agents merges hosts, or a name (if it has one) does not tell the
/// host.
pub(super) fn check(expr: &str, name: Option<&str>, recorded: &BTreeSet<String>) -> Vec<String> {
    let expr = without_strings(expr);
    let is_of_agent = |text: &str| {
        let of_agent =
            |word| family(word).is_some_and(|family| family.source == MetricSource::Agent);
        words(text).any(|(word, _)| recorded.contains(word) || of_agent(word))
    };
    if !is_of_agent(&expr) {
        return Vec::new();
    }
    let merging = words(&expr).filter(|(word, _)| AGGREGATES.contains(word));
    let merging = merging.filter(|(_, rest)| {
        let Some((arguments, kept)) = aggregate(rest) else {
            return false;
        };
        !kept && is_of_agent(arguments)
    });
    let findings =
        merging.map(|(word, _)| format!("{word} merges hosts; keep {HOST}, or say scope: cluster"));
    let mut findings: Vec<String> = findings.collect();
    if name.is_some_and(|name| !name.contains("{{instance}}")) {
        findings.push("its name does not tell the host: add {{instance}}".to_owned());
    }
    findings
}

/// What an aggregate adds up, and whether it keeps the host; `rest` is what follows its name.
fn aggregate(rest: &str) -> Option<(&str, bool)> {
    let rest = rest.trim_start();
    let (before, rest) = grouping(rest);
    let arguments = bracketed(rest)?;
    let (after, _) = grouping(rest[arguments.len() + 2..].trim_start());
    Some((arguments, before.or(after).unwrap_or(false)))
}

/// Whether a grouping at the begin of the text keeps the host, if there is one, and what follows
/// it.
fn grouping(text: &str) -> (Option<bool>, &str) {
    for (word, keeps) in [("by", true), ("without", false)] {
        let list = text.strip_prefix(word).map(str::trim_start);
        if let Some((rest, list)) = list.and_then(|rest| Some((rest, bracketed(rest)?))) {
            let names_host = list.split(',').any(|label| label.trim() == HOST);
            let rest = rest[list.len() + 2..].trim_start();
            return (Some(names_host == keeps), rest);
        }
    }
    (None, text)
}

/// What is inside the bracket that the text begins with.
fn bracketed(text: &str) -> Option<&str> {
    let mut depth = 0;
    for (at, letter) in text.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return text.get(1..at).filter(|_| text.starts_with('('));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(expr: &str) -> usize {
        let recorded = BTreeSet::from(["perigee:nic:rate".to_owned()]);
        check(expr, Some("{{instance}} {{device}}"), &recorded).len()
    }

    #[test]
    fn queries_that_keep_the_host_are_sound() {
        for expr in [
            "histogram_quantile(0.99, sum by (le, instance, device) (rate(perigee_block_device_seconds_bucket[1m])))",
            "sum(rate(perigee_nic_receive_bytes_total[1m])) by (instance)",
            "sum without (port) (perigee_nic_up)",
            "perigee_nic_up == 0",
            "max by (instance) (perigee:nic:rate) / clamp_min(quantile by (instance) (0.5, perigee:nic:rate), 1)",
            "sum by (rpc) (rate(perigee_rpc_requests_total[1m]))",
        ] {
            assert_eq!(findings(expr), 0, "{expr}");
        }
    }

    #[test]
    fn queries_that_merge_hosts_are_found() {
        for expr in [
            "histogram_quantile(0.99, sum by (le, device) (rate(perigee_block_device_seconds_bucket[1m])))",
            "sum(perigee_nic_up)",
            "sum without (instance) (perigee_nic_up)",
            "max(sum by (instance) (perigee_nic_up{device=\"(\"}))",
            "avg(perigee:nic:rate) by (device)",
        ] {
            assert_eq!(findings(expr), 1, "{expr}");
        }
    }

    #[test]
    fn a_line_that_does_not_name_its_host_is_found() {
        let none = BTreeSet::new();
        assert_eq!(check("perigee_nic_up", Some("{{device}}"), &none).len(), 1);
        assert_eq!(check("perigee_nic_up", None, &none).len(), 0);
        assert_eq!(check("perigee_connections", Some("open"), &none).len(), 0);
    }
}
