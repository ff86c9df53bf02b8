//! The report for programs: `tools/cli/check.md`. Invariant: fields are only ever added; one that
//! goes or changes makes it the next version.

use super::report::CheckReport;
use super::{Culprit, LinkResult, Unheard};
use serde_json::{Value, json};

/// Version of the document.
const VERSION: u32 = 1;

/// One document.
pub(super) fn json(report: &CheckReport) -> String {
    let document = json!({
        "version": VERSION,
        "checked_unix_s": report.now_unix_s,
        "seconds": report.seconds,
        "baseline": { "checked_unix_s": report.before_unix_s, "links": report.known_links },
        "hosts": report.hosts.iter().map(|(name, facts)| json!({ "name": name, "nics": facts.nics })).collect::<Vec<_>>(),
        "unheard": report.unheard.iter().map(unheard).collect::<Vec<_>>(),
        "links": report.links.iter().map(link).collect::<Vec<_>>(),
        "findings": report.findings,
        "culprits": report.culprits.iter().map(culprit).collect::<Vec<_>>(),
    });
    format!("{document:#}\n")
}

fn unheard(one: &Unheard) -> Value {
    json!({ "host": one.host, "reason": one.reason })
}

fn link(link: &LinkResult) -> Value {
    json!({
        "from": link.from,
        "to": link.to,
        "nic_frame_bytes": link.nic_frame_bytes,
        "speed_mbps": link.speed_mbps,
        "readings": link.outcome.as_ref().ok(),
        "error": link.outcome.as_ref().err(),
    })
}

fn culprit(one: &Culprit) -> Value {
    json!({
        "kind": one.kind,
        "name": one.name,
        "sick_links": one.sick,
        "links": one.looked_at,
    })
}
