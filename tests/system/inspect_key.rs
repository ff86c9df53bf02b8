//! `perigee inspect key`: why an object is not there, of a real master.

use perigee_schemas::Status;
use perigee_tests::cluster::{Master, Node};
use perigee_tests::objects::{Objects, key_name};
use perigee_tests::program::{Ended, Program};
use serde_json::Value;

const OBJECT_BYTES: usize = 1 << 20;
const POOL_BYTES: u64 = 16 << 20;
/// More than there is room for.
const KEYS: u64 = 40;
/// Exit codes of the help text.
const REFUSED: i32 = 2;
const NO_ANSWER: i32 = 69;

fn inspect(words: &[&str]) -> Ended {
    let words: Vec<String> =
        ["inspect", "key"].iter().chain(words).map(|word| (*word).to_owned()).collect();
    Program::run("perigee", &words)
}

fn flags(master: &Master) -> [String; 2] {
    [format!("--master={}", master.rpc), format!("--metrics_port={}", master.http.port())]
}

fn inspected(master: &Master, key: &str) -> Value {
    let [address, port] = flags(master);
    let ended = inspect(&[key, &address, &port, "--format=json"]);
    assert_eq!(ended.code, Some(0), "{}", ended.output);
    ended.output.parse().expect("a document")
}

#[test]
fn an_operator_sees_where_a_key_lies_and_why_it_went() {
    let master = Master::start(&["--rpc_shards=2", "--default_kv_lease_ttl=1"]);
    let node = Node::start(&master, POOL_BYTES);
    let objects = Objects::open(&master.address());
    for key in 0..KEYS {
        let statuses = objects.upsert_objects(&[key], 1, OBJECT_BYTES);
        assert_eq!(statuses, [Status::Ok], "key {key}");
    }
    let evicted = (0..KEYS).map(|key| inspected(&master, &key_name(key)));
    let evicted = evicted.filter(|report| report["object"].is_null()).collect::<Vec<_>>();
    assert!(!evicted.is_empty(), "40 MiB do not fit into 16");
    for report in &evicted {
        let cause = report["departures"][0]["cause"].as_str().unwrap_or_default();
        assert!(["put_needed_room", "watermark"].contains(&cause), "{report}");
    }
    let there = inspected(&master, &key_name(KEYS - 1));
    assert_eq!(there["object"]["replicas"][0]["segment"], node.name.as_str(), "{there}");
    assert_eq!(objects.store.remove(&[&key_name(KEYS - 1)], true), [Status::Ok]);
    let [address, port] = flags(&master);
    let ended = inspect(&[&key_name(KEYS - 1), &address, &port]);
    assert!(ended.output.contains("its key was removed"), "{}", ended.output);
}

#[test]
fn what_cannot_be_asked_is_said_in_one_line() {
    let ended = inspect(&[]);
    assert_eq!(ended.code, Some(REFUSED), "{}", ended.output);
    assert!(ended.output.contains("perigee inspect key KEY"), "{}", ended.output);
    let ended = inspect(&["k", "--master=127.0.0.1:1", "--metrics_port=1"]);
    assert_eq!(ended.code, Some(NO_ANSWER), "{}", ended.output);
    assert!(ended.output.contains("--metrics_port"), "{}", ended.output);
}
