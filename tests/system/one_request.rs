//! One request followed through client, master and node, as agents and `perigee trace` show it.
//! Invariant: what is found under a request's name is what happened for it, and nothing else.

use perigee_client::in_trace;
use perigee_schemas::Status;
use perigee_tests::cluster::{Master, Node};
use perigee_tests::deadline::wait_until;
use perigee_tests::http;
use perigee_tests::network::{free_ports, loopback};
use perigee_tests::objects::Objects;
use perigee_tests::program::{Ended, Program};
use serde_json::Value;
use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;
use std::time::Duration;

const POOL_BYTES: u64 = 64 << 20;
const VALUE: &[u8] = &[7; 4096];
const PARENT: &str = "00f067aa0ba902b7";
/// Longer than an agent needs to read what was kept, on a busy host.
const SEEN_DEADLINE: Duration = Duration::from_secs(60);

struct Scene {
    /// Of the request: all agents of a host see the same processes.
    id: String,
    agent: SocketAddr,
    objects: Objects,
    _programs: (Program, [Node; 2], Master),
}

fn scene() -> Scene {
    let master = Master::start(&[]);
    let nodes = [(); 2].map(|()| Node::start(&master, POOL_BYTES));
    let [port] = free_ports();
    let address = loopback(port);
    let flags = [
        "agent".to_owned(),
        format!("--port={port}"),
        "--ebpf=false".to_owned(),
        "--state_dir=".to_owned(),
    ];
    let agent = Program::start("perigee", &flags);
    wait_until("the agent has read the host", SEEN_DEADLINE, || {
        http::request(address, "GET", "/readyz").is_ok_and(|answer| answer.status == 200)
    });
    let objects = Objects::open_over_tcp(&master.address());
    let id = format!("{:032x}", u128::from(RandomState::new().hash_one(port)) << 64 | 1);
    Scene { id, agent: address, objects, _programs: (agent, nodes, master) }
}

impl Scene {
    fn trace(&self, words: &[&str]) -> Ended {
        let agent = format!("--agent={}", self.agent);
        Program::run("perigee", &[&["trace"], words, &[&agent]].concat())
    }

    /// Spans of the request, once all kinds are there; more gets are made until then, because what
    /// happened before an agent was near is not kept.
    fn spans(&self, key: &str) -> Vec<Value> {
        let traceparent = format!("00-{}-{PARENT}-01", self.id);
        let mut spans = Vec::new();
        wait_until("all spans of a get are found", SEEN_DEADLINE, || {
            let read = in_trace(&traceparent, || self.objects.get(key, VALUE.len()));
            assert_eq!(read.expect("the object is there"), VALUE);
            let ended = self.trace(&[&self.id, "--format=json"]);
            let document: Value = serde_json::from_str(&ended.output).unwrap_or_default();
            spans = document["spans"].as_array().cloned().unwrap_or_default();
            let has = |kind: &str| spans.iter().any(|span| span["kind"] == kind);
            ["call", "master", "transfer", "served", "answered"].into_iter().all(has)
        });
        spans
    }
}

#[test]
fn a_get_under_a_traceparent_is_found_with_its_spans_of_client_master_and_node() {
    let scene = scene();
    let key = "layer-0/page 7?&ä";
    assert_eq!(scene.objects.put(key, VALUE), Status::Ok);
    let spans = scene.spans(key);
    assert!(spans.iter().all(|span| span["trace"] == scene.id), "{spans:#?}");
    let calls: Vec<&Value> = spans.iter().filter(|span| span["kind"] == "call").collect();
    assert!(calls.iter().all(|call| call["parent"] == PARENT && call["name"] == "get"));
    assert!(calls.iter().all(|call| call["key"] == key && call["bytes"] == VALUE.len()));
    let pid = std::process::id();
    // What servers say is found under the call that they served.
    let whole = calls.iter().find_map(|call| {
        let of = |kind: &str| {
            spans.iter().find(|span| span["kind"] == kind && span["call"] == call["call"])
        };
        Some((*call, of("master")?, of("transfer")?, of("served")?, of("answered")?))
    });
    let (call, lookup, transfer, served, answered) = whole.expect("a call with all of it");
    assert_eq!(call["pid"], pid);
    assert_eq!([&lookup["name"], &answered["name"]], ["GetReplicas"; 2]);
    assert_eq!([&transfer["name"], &served["name"]], ["read"; 2]);
    assert_eq!((&transfer["device"], &transfer["route"]), (&"lo".into(), &"tcp".into()));
    assert_eq!([&transfer["bytes"], &served["bytes"]], [VALUE.len(); 2]);
    assert!(served["pid"] != pid && answered["pid"] != pid && served["pid"] != answered["pid"]);
    // The answers carry what their servers say, so that the client's spans need no others.
    for span in [lookup, transfer] {
        let server = ["waited_ns", "served_ns"].map(|part| span[part].as_u64().expect("a number"));
        assert!(server.into_iter().sum::<u64>() > 0, "{span:#}");
    }
    let parts = [lookup, transfer].map(|span| span["took_ns"].as_u64().expect("a number"));
    assert!(parts.into_iter().sum::<u64>() <= call["took_ns"].as_u64().expect("a number"));
}

#[test]
fn calls_of_a_client_that_serves_no_metrics_are_counted_by_the_agent_of_its_host() {
    let scene = scene();
    assert_eq!(scene.objects.put("counted", VALUE), Status::Ok);
    wait_until("the agent counts calls of this process", SEEN_DEADLINE, || {
        let read = scene.objects.get("counted", VALUE.len());
        assert_eq!(read.expect("the object is there"), VALUE);
        let answer = http::request(scene.agent, "GET", "/metrics").expect("an answer");
        let counts = |line: &str| {
            line.starts_with("perigee_process_calls_total{program=\"system")
                && !line.ends_with(" 0")
        };
        answer.body.lines().any(counts)
    });
}

#[test]
fn a_request_is_found_by_its_key_or_the_error_says_what_to_do() {
    let scene = scene();
    let key = "0af7651916cd43dd8448eb211c80319c";
    assert_eq!(scene.objects.put(key, VALUE), Status::Ok);
    let spans = scene.spans(key);
    // The key could be the name of a request.
    let ended = scene.trace(&[key]);
    assert_eq!(ended.code, Some(0), "{}", ended.output);
    for part in [&format!("trace {}, ", scene.id), key, "GetReplicas", "read 4.0 KiB", "served by"]
    {
        assert!(ended.output.contains(part), "{part} in {}", ended.output);
    }
    assert!(spans.len() > 4);
    let latest = scene.trace(&[]);
    assert!(latest.output.contains(&scene.id), "{}", latest.output);
    let missing = scene.trace(&["no-such-key"]);
    assert_eq!(missing.code, Some(1), "{}", missing.output);
    assert!(missing.output.contains("--cluster=MASTER"), "{}", missing.output);
    let [nowhere] = free_ports();
    let nowhere = Program::run("perigee", &["trace", key, &format!("--agent=127.0.0.1:{nowhere}")]);
    assert_eq!(nowhere.code, Some(69), "{}", nowhere.output);
    // What is no traceparent is none.
    for wrong in ["", "00-zz-11-01", "\u{0}", &"0".repeat(100_000)] {
        let read = in_trace(wrong, || scene.objects.get(key, VALUE.len()));
        assert_eq!(read.expect("the object is there"), VALUE);
    }
}
