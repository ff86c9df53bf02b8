//! The routes over HTTP, of an agent that reads this host.

use super::{STALLED, stalled};
use crate::board::SnapshotBoard;
use crate::exemplars::Exemplars;
use crate::{Agent, AgentOptions};
use perigee_activity::{Direction, Page, PageDirectory, Route, Slot, SlotKey, Stages};
use std::collections::BTreeMap;
use std::time::Duration;

struct Fixture {
    agent: Agent,
    _folder: tempfile::TempDir,
}

fn agent() -> Fixture {
    let folder = tempfile::tempdir().unwrap();
    let directory = PageDirectory::new(folder.path().join("activity"));
    let page = Box::leak(Box::new(Page::create(&directory).unwrap()));
    let slot = Slot::claim(page, SlotKey::new("eth7", Route::Tcp, Direction::Write, 2)).unwrap();
    slot.record(4096, &Stages::whole(30_000, 500));
    std::mem::drop(slot);
    let options = AgentOptions {
        listen: "127.0.0.1:0".parse().unwrap(),
        activity: directory,
        state: Some(folder.path().join("state")),
        ebpf: false,
        ..AgentOptions::default()
    };
    Fixture { agent: Agent::start(options).unwrap(), _folder: folder }
}

impl Fixture {
    fn get(&self, path: &str, accept: &str) -> (String, String) {
        let address = self.agent.address().unwrap();
        let request = ureq::get(format!("http://{address}{path}")).header("accept", accept);
        let mut response = request.call().unwrap();
        let kind = response.headers()["content-type"].to_str().unwrap().to_owned();
        (kind, response.body_mut().read_to_string().unwrap())
    }
}

#[test]
fn metrics_hold_what_processes_and_kernel_counted_under_catalogued_names() {
    let fixture = agent();
    let (kind, text) = fixture.get("/metrics", "*/*");
    assert!(kind.starts_with("text/plain"));
    let flow = "perigee_flow_bytes_total{device=\"eth7\",route=\"tcp\",direction=\"write\"} 4096";
    assert!(text.contains(flow), "{text}");
    assert!(text.contains("perigee_nic_receive_bytes_total{device=\"lo\",port=\"1\""));
    assert!(text.contains("perigee_probe_on{probe=\"drops\"} 0"));
    assert!(text.contains("perigee_flow_latency_seconds_count"));
}

#[test]
fn openmetrics_is_served_to_those_who_ask() {
    let fixture = agent();
    let (kind, text) = fixture.get("/metrics", "application/openmetrics-text; version=1.0.0");
    assert!(kind.starts_with("application/openmetrics-text"));
    assert!(text.ends_with("# EOF\n"));
    assert!(text.contains("# TYPE perigee_flow_bytes counter"));
    assert!(text.contains("# UNIT perigee_flow_latency_seconds seconds"));
}

#[test]
fn readiness_names_what_is_off_and_why() {
    let fixture = agent();
    let (_, text) = fixture.get("/readyz", "*/*");
    let rows: Vec<BTreeMap<String, String>> = serde_json::from_str(&text).unwrap();
    let off = rows.iter().find(|row| row["name"] == "nics").unwrap();
    assert_eq!(off["state"], "off");
    assert!(off["reason"].contains("--ebpf=false"));
    let (_, text) = fixture.get("/explain", "*/*");
    assert!(text.contains("activity     on"), "{text}");
}

#[test]
fn the_page_comes_with_all_it_needs_and_may_load_nothing_else() {
    let fixture = agent();
    let (_, page) = fixture.get("/", "text/html");
    let mut texts = vec![page];
    for needed in ["page.css", "page.js", "charts.js", "numbers.js"] {
        assert!(texts.iter().any(|text| text.contains(needed)), "{needed}");
        texts.push(fixture.get(&format!("/{needed}"), "*/*").1);
    }
    let page = texts.join("\n").replace("http://www.w3.org/2000/svg", "");
    assert!(!page.contains("http://") && !page.contains("https://"));
}

#[test]
fn nothing_the_agent_serves_is_unknown_to_the_catalogue() {
    let fixture = agent();
    let (_, text) = fixture.get("/snapshot.json", "*/*");
    assert!(text.contains("\"flows\""));
    let mut collector =
        crate::Collector::new(AgentOptions { state: None, ..AgentOptions::default() });
    let samples = crate::metrics::samples(&collector.collect(), &Exemplars::default());
    assert_eq!(samples.refused(), Vec::<String>::new());
}

#[test]
fn an_agent_that_no_longer_reads_its_host_is_not_alive() {
    assert_eq!(stalled(Duration::from_secs(2)), None);
    let text = stalled(STALLED + Duration::from_secs(1)).unwrap();
    assert!(text.starts_with("The host was read 31 s ago"), "{text}");
    let board = SnapshotBoard::open(None, None);
    assert!(board.age() < STALLED, "before the first reading it has time");
}

#[test]
fn the_history_is_handed_out_and_a_question_that_is_none_is_refused() {
    let fixture = agent();
    let taken = |text: &str| {
        let value: serde_json::Value = serde_json::from_str(text).unwrap();
        let snapshots = value["snapshots"].as_array().unwrap().iter();
        snapshots.map(|one| one["taken_ms"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    // Recorded before it is shown.
    let _ = fixture.get("/snapshot.json", "*/*");
    let (kind, text) = fixture.get("/history.json", "*/*");
    assert_eq!(kind, "application/json");
    let first = taken(&text)[0];
    let (_, none) = fixture.get(&format!("/history.json?from=1&to={}", first - 1), "*/*");
    assert!(taken(&none).is_empty());
    let address = fixture.agent.address().unwrap();
    let refused = ureq::get(format!("http://{address}/history.json?since=1")).call();
    assert!(matches!(refused, Err(ureq::Error::StatusCode(400))));
}
