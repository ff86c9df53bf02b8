//! Every route against a master with fixed contents. Invariant: status, content type and body are
//! compared whole, as strict clients do.

mod cluster;
mod drains;
mod fixed_master;
mod keys;
mod listings;
mod parameters;
mod quotas;
mod tenants;

use super::*;
use crate::summary::Rates;
use axum::body::Body;
use axum::http::Request;
use fixed_master::{Fake, segment, segment_called};
use http_body_util::BodyExt;
use perigee_metrics::BuildInfo;
use std::sync::{Arc, Mutex};
use std::time::Instant;
use tower::ServiceExt;

const JSON: &str = "application/json; charset=utf-8";
const METRICS: &str = "text/plain; version=0.0.4";
const NOT_FOUND: &str = r#"{"success":false,"error_code":-704,"error_message":"OBJECT_NOT_FOUND"}"#;
const OFF: &str =
    r#"{"success":false,"error_code":-1011,"error_message":"UNAVAILABLE_IN_CURRENT_MODE"}"#;

struct Answer {
    status: u16,
    content_type: String,
    body: String,
}

fn context(fake: Fake) -> RouteContext {
    let now = Instant::now();
    RouteContext {
        plane: Arc::new(fake),
        build: BuildInfo { version: "1.2.3", commit: "c", reactor: "epoll" },
        started: now,
        rates: Arc::new(Mutex::new(Rates::new(now))),
        cluster: Arc::default(),
    }
}

fn ask_of(fake: Fake, method: &str, target: &str, body: &str) -> Answer {
    let shared = context(fake);
    let request = Request::builder().method(method).uri(target);
    let request = request.body(Body::from(body.to_owned())).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let response = router(shared).oneshot(request).await.unwrap();
        let content_type = response.headers().get("content-type");
        let content_type = content_type.map_or("", |value| value.to_str().unwrap()).to_owned();
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        Answer { status, content_type, body: String::from_utf8(body.to_vec()).unwrap() }
    })
}

fn live(method: &str, target: &str) -> Answer {
    ask_of(Fake { segments: vec![segment()], down: false, has_quotas: false }, method, target, "")
}

fn empty(target: &str) -> Answer {
    ask_of(Fake { segments: Vec::new(), down: false, has_quotas: false }, "GET", target, "")
}

fn assert_answer(answer: &Answer, status: u16, content_type: &str, body: &str) {
    let seen = (answer.status, answer.content_type.as_str(), answer.body.as_str());
    assert_eq!(seen, (status, content_type, body));
}

#[test]
fn state_routes_answer_like_mooncake() {
    let health = r#"{"status":"ok","role":"leader","ha_state":"serving","service_ready":true,"leader_address":null,"view_version":null}"#;
    assert_answer(&live("GET", "/health"), 200, JSON, health);
    let leader = r#"{"present":false,"leader_address":null,"view_version":null}"#;
    assert_answer(&live("GET", "/leader"), 200, JSON, leader);
    let plain = "text/plain; charset=utf-8";
    assert_answer(&live("GET", "/role"), 200, plain, "leader");
    assert_answer(&live("GET", "/ha_status"), 200, plain, "serving");
}

#[test]
fn removing_all_needs_a_post_and_takes_force() {
    let target = "/api/v1/remove_all";
    assert_answer(&live("POST", target), 200, JSON, r#"{"success":true,"removed_count":1}"#);
    let forced = live("POST", "/api/v1/remove_all?force=true");
    assert_answer(&forced, 200, JSON, r#"{"success":true,"removed_count":3}"#);
    assert_eq!(live("GET", target).status, 405);
}

#[test]
fn quotas_change_by_requests_that_are_understood_only() {
    for query in ["tenant=red", "tenant_id=red&dry_run=true", "tenant_id=", "tenant_id"] {
        for method in ["PUT", "DELETE"] {
            let target = format!("/api/v1/tenant_quotas?{query}");
            let fake = Fake { segments: Vec::new(), down: false, has_quotas: true };
            let answer = ask_of(fake, method, &target, r#"{"requested_quota_bytes": 1}"#);
            assert!(answer.status == 400, "{method} {query}: {}", answer.body);
        }
    }
}

#[test]
fn features_that_are_off_answer_like_in_mooncake() {
    assert_answer(&live("GET", "/api/v1/tenant_quotas"), 409, JSON, OFF);
    assert_answer(&live("DELETE", "/api/v1/tenant_quotas?tenant_id=t1"), 409, JSON, OFF);
    let quota = r#"{"success":false,"error_code":-600,"error_message":"Tenant quota must be in [1, 2^63 - 1] bytes"}"#;
    assert_answer(&live("PUT", "/api/v1/tenant_quotas?tenant_id=t1"), 400, JSON, quota);
}

#[test]
fn unknown_routes_are_not_found_and_the_root_is_a_page() {
    assert_eq!(live("GET", "/nothing_here").body, "404 Not Found");
    assert_eq!(live("GET", "/nothing_here").status, 404);
    let root = live("GET", "/");
    assert!(root.status == 200 && root.body.contains("Perigee master 1.2.3"));
}

#[test]
fn metrics_and_summary_have_mooncakes_content_type() {
    let metrics = live("GET", "/metrics");
    assert_eq!((metrics.status, metrics.content_type.as_str()), (200, METRICS));
    for line in [
        "segment_allocated_bytes{segment=\"127.0.0.1:17001\"} 9216",
        "segment_total_capacity_bytes{segment=\"127.0.0.1:17001\"} 33554432",
        "perigee_segment_largest_free_bytes{segment=\"127.0.0.1:17001\"} 1",
        "master_total_capacity_bytes 33554432",
        "master_key_count 2",
        "perigee_ready 1",
    ] {
        assert!(metrics.body.contains(&format!("\n{line}\n")), "{line}");
    }
    let summary = live("GET", "/metrics/summary");
    assert_eq!((summary.status, summary.content_type.as_str()), (200, METRICS));
    assert!(summary.body.starts_with("role=leader, state=serving"));
}

#[test]
fn a_master_that_is_not_ready_is_alive_but_says_so() {
    let ask = |target| {
        ask_of(Fake { segments: Vec::new(), down: true, has_quotas: false }, "GET", target, "")
    };
    assert_eq!(
        (ask("/livez").status, ask("/health").status, ask("/metrics").status),
        (200, 200, 200)
    );
    assert!(ask("/health").body.contains("\"service_ready\":false"));
    assert_eq!(ask("/readyz").status, 503);
    assert_eq!(ask("/readyz").body, "shards are starting");
    assert_eq!(ask("/query_key?key=k1").status, 503);
}

#[test]
fn events_have_a_status_and_a_snapshot_that_begins_with_its_sequence_number() {
    let events = r#"{"enabled":true,"published_batches":2,"published_events":3,"dropped_events":4,"skipped_unparsed_keys":5}"#;
    assert_answer(&live("GET", "/kv_events/status"), 200, JSON, events);
    let snapshot = r#"{"sequence":6,"sequence_text":"6"}
{"object_key":"k2","size":1024,"group_id":null,"medium":"disk","tenant_id":"default"}
{"object_key":"k1","size":1024,"group_id":"g","medium":"cpu","tenant_id":"default"}
{"object_key":"k1","size":1024,"group_id":"g","medium":"disk","tenant_id":"default"}
"#;
    assert_answer(&live("GET", "/kv_events/snapshot"), 200, "application/x-ndjson", snapshot);
}

#[test]
fn without_events_the_status_is_zero_and_there_is_no_snapshot() {
    let down = |target| {
        ask_of(Fake { segments: Vec::new(), down: true, has_quotas: false }, "GET", target, "")
    };
    let events = r#"{"enabled":false,"published_batches":0,"published_events":0,"dropped_events":0,"skipped_unparsed_keys":0}"#;
    assert_answer(&down("/kv_events/status"), 200, JSON, events);
    assert_answer(&down("/kv_events/snapshot"), 409, JSON, OFF);
}
