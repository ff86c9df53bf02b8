//! NIC by peer: the worst round trip of both directions, as lines of text.

use perigee_verdict::{ClusterVerdict, NicOfHost};
use std::collections::{BTreeMap, BTreeSet};

/// Columns of a field.
const FIELD: usize = 10;
/// Longest name of a NIC with its host.
const NAME: usize = 28;

#[derive(Default)]
struct Field {
    round_trip_ns: Option<u64>,
    is_sick: bool,
}

/// Lines, and whether each has a field that an agent complains about. Hosts that have no room are
/// counted in the last column; those behind sick links come first.
pub(super) fn matrix(verdict: &ClusterVerdict, columns: usize) -> Vec<(bool, String)> {
    let mut rows: BTreeMap<String, BTreeMap<&str, Field>> = BTreeMap::new();
    for link in &verdict.links {
        for (near, far) in [(&link.from, &link.to), (&link.to, &link.from)] {
            if near.nic.is_empty() {
                continue;
            }
            let row = rows.entry(near.to_string()).or_default();
            let field = row.entry(far.host.as_str()).or_default();
            field.round_trip_ns = field.round_trip_ns.max(link.round_trip_ns);
            field.is_sick |= link.is_sick;
        }
    }
    if rows.is_empty() {
        return vec![(false, "Nothing moves between hosts whose agents report".to_owned())];
    }
    let longest = rows.keys().map(|name| name.chars().count()).max().unwrap_or(0).min(NAME);
    let hosts = hosts(verdict);
    let room = (columns.saturating_sub(longest) / FIELD).max(1);
    // In the order of the rows.
    let shown: BTreeSet<&str> = hosts.iter().take(room).copied().collect();
    let mut head = format!("{:longest$}", "NIC");
    shown.iter().for_each(|host| head.push_str(&format!("{:>FIELD$}", cut(host, FIELD - 1))));
    let mut lines = vec![(false, head)];
    for (name, fields) in &rows {
        let mut line = format!("{:longest$}", cut(name, longest));
        for host in &shown {
            let text = fields.get(*host).map(text_of).unwrap_or_default();
            line.push_str(&format!("{text:>FIELD$}"));
        }
        lines.push((fields.values().any(|field| field.is_sick), line));
    }
    if hosts.len() > shown.len() {
        let more = hosts.len() - shown.len();
        lines.push((false, format!("and {more} more hosts; a wider window shows them")));
    }
    lines
}

/// Hosts at the other ends of links, those behind sick ones first.
fn hosts(verdict: &ClusterVerdict) -> Vec<&str> {
    let mut found: BTreeSet<(bool, &str)> = BTreeSet::new();
    let sick = |host: &str| {
        let of_host = |end: &NicOfHost| end.host == host;
        verdict.links.iter().any(|link| link.is_sick && (of_host(&link.from) || of_host(&link.to)))
    };
    for link in &verdict.links {
        for host in [link.from.host.as_str(), link.to.host.as_str()] {
            found.insert((!sick(host), host));
        }
    }
    found.into_iter().map(|(_, host)| host).collect()
}

fn text_of(field: &Field) -> String {
    let time = match field.round_trip_ns {
        None => "?".to_owned(),
        Some(ns) if ns < 1_000_000 => format!("{}us", ns / 1000),
        Some(ns) => format!("{:.1}ms", ns as f64 / 1e6),
    };
    if field.is_sick { format!("{time}!") } else { time }
}

fn cut(text: &str, room: usize) -> String {
    if text.chars().count() <= room {
        return text.to_owned();
    }
    text.chars().take(room.saturating_sub(1)).chain(['~']).collect()
}
