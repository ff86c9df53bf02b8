//! Every metric family of Mooncake's master is served under its name and type.
//! Invariant: dashboards made for Mooncake find what they ask for.

use std::collections::HashMap;

use perigee_tests::cluster::{Master, Node};
use perigee_tests::http;

use crate::list::entries;

fn types(text: &str) -> HashMap<&str, &str> {
    text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' ')).collect()
}

#[test]
fn families_of_mooncake_are_served_with_their_types() {
    // Families with a segment label are there once a segment is.
    let master = Master::start(&[]);
    let _node = Node::start(&master, 16 << 20);
    let text = http::get(master.http, "/metrics").body;
    let served = types(&text);
    let differences: Vec<String> = entries::<2>(include_str!("lists/metric_families.txt"))
        .into_iter()
        .filter(|[name, kind]| served.get(name) != Some(kind))
        .map(|[name, kind]| format!("{name}: {kind}, not {:?}", served.get(name)))
        .collect();
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

#[test]
fn every_sample_belongs_to_a_declared_family() {
    let master = Master::start(&[]);
    let text = http::get(master.http, "/metrics").body;
    let served = types(&text);
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let name = line.split(['{', ' ']).next().unwrap();
        let base = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end));
        let declared = served.contains_key(name) || base.is_some_and(|b| served.contains_key(b));
        assert!(declared, "{line}");
        assert!(line.rsplit(' ').next().unwrap().parse::<f64>().is_ok(), "{line}");
    }
}
