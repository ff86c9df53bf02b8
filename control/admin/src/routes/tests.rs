//! Every route against a master with fixed contents. Invariant: status, content type and body are
//! compared whole, as strict clients do.

mod cluster;
mod keys;
mod quotas;

use super::*;
use crate::key_report::KeyReport;
use crate::limits::{LOOKED_UP_AT_A_TIME, SEGMENTS_PER_PIECE};
use crate::master_view::ControlPlane;
use crate::master_view::{
    AdminRefusal, DrainInfo, DrainRequest, KeyCursor, KeyEventCounts, KeyPlaces, ObjectInfo,
    ObjectPage, ReplicaPlace, SegmentInfo, SegmentText,
};
use crate::summary::Rates;
use axum::body::Body;
use axum::http::Request;
use http_body_util::BodyExt;
use perigee_metrics::BuildInfo;
use perigee_metrics::{MasterCells, MasterNumbers, TenantNumbers};
use perigee_schemas::{Status, TenantId};
use std::sync::{Arc, Mutex};
use std::time::Instant;
use tower::ServiceExt;

const JSON: &str = "application/json; charset=utf-8";
const METRICS: &str = "text/plain; version=0.0.4";
const NOT_FOUND: &str = r#"{"success":false,"error_code":-704,"error_message":"OBJECT_NOT_FOUND"}"#;
const OFF: &str =
    r#"{"success":false,"error_code":-1011,"error_message":"UNAVAILABLE_IN_CURRENT_MODE"}"#;

/// Identity of the fixed master's drain job.
const JOB: u128 = (5 << 64) | 9;

/// A master with fixed contents; `down` answers nothing.
struct Fake {
    segments: Vec<SegmentInfo>,
    down: bool,
    has_quotas: bool,
}

impl ControlPlane for Fake {
    fn readiness(&self) -> Result<(), String> {
        if self.down { Err("shards are starting".to_owned()) } else { Ok(()) }
    }

    fn locate(&self, keys: &[String]) -> Result<Vec<KeyPlaces>, Status> {
        let place = ReplicaPlace::Memory {
            payload_bytes: 1024,
            buffer_address: 140_252_811_362_304,
            protocol: "tcp".to_owned(),
            endpoint: "127.0.0.1:17001".to_owned(),
        };
        let locate = |key: &String| match key.as_str() {
            "k1" | "\u{1}red\u{1}r1" => Ok(vec![place.clone()]),
            "on-disk" => Ok(vec![ReplicaPlace::Disk {
                payload_bytes: 7,
                client: 1 << 64 | 2,
                endpoint: "127.0.0.1:17002".to_owned(),
            }]),
            _ => Err(Status::ObjectNotFound),
        };
        if self.down {
            return Err(Status::UnavailableInCurrentMode);
        }
        assert!(keys.len() <= LOOKED_UP_AT_A_TIME, "{} keys at a time", keys.len());
        Ok(keys.iter().map(locate).collect())
    }

    fn inspect(&self, key: &str) -> Result<KeyReport, Status> {
        match self.down {
            true => Err(Status::RpcTimeout),
            false => Ok(keys::report(key)),
        }
    }

    /// Each page has one key.
    fn list_objects(
        &self,
        tenant: Option<&TenantId>,
        regex: Option<&str>,
        from: Option<KeyCursor>,
        limit: usize,
    ) -> Result<ObjectPage, Status> {
        match regex {
            None => {}
            Some("(") => return Err(Status::InvalidParams),
            Some(end) => {
                let mut page = self.list_objects(tenant, None, from, limit)?;
                page.objects.retain(|object| object.key.ends_with(end));
                return Ok(page);
            }
        }
        if tenant.is_some_and(|tenant| !tenant.is_default()) {
            return Ok(ObjectPage { objects: vec![red_object()], next: None });
        }
        let at = from.map_or(0, |from| from[0]);
        let keys = ["k2", "k1"].into_iter().skip(at as usize).take(limit.min(1));
        let object = |key: &str| ObjectInfo {
            tenant: "default".to_owned(),
            key: key.to_owned(),
            payload_bytes: 1024,
            group: (key == "k1").then(|| "g".to_owned()),
            media: if key == "k1" { vec!["cpu", "disk"] } else { vec!["disk"] },
        };
        Ok(ObjectPage {
            objects: keys.map(object).collect(),
            next: (at < 1).then_some([at + 1, 0, 0]),
        })
    }

    fn key_events(&self) -> Option<KeyEventCounts> {
        let counts = KeyEventCounts {
            published_batches: 2,
            published_events: 3,
            dropped_events: 4,
            skipped_unparsed_keys: 5,
            next_sequence: 6,
            subscribers: 1,
        };
        (!self.down).then_some(counts)
    }

    fn segments(&self, name: Option<&str>) -> Result<Vec<SegmentInfo>, Status> {
        let wanted = |segment: &&SegmentInfo| name.is_none_or(|name| segment.text.name() == name);
        Ok(self.segments.iter().filter(wanted).cloned().collect())
    }

    fn remove_all(&self, tenant: Option<&TenantId>, force: bool) -> Result<u64, Status> {
        Ok(match tenant {
            Some(tenant) => 100 + tenant.name().len() as u64,
            None if force => 3,
            None => 1,
        })
    }

    fn create_drain(&self, request: DrainRequest) -> Result<u128, AdminRefusal> {
        match request.segments[0].as_str() {
            "127.0.0.1:17001" if request.max_concurrency == 4 => Ok(JOB),
            "busy" => Err(Status::UnavailableInCurrentStatus.into()),
            _ => Err(Status::SegmentNotFound.into()),
        }
    }

    fn drain_job(&self, id: u128) -> Result<DrainInfo, Status> {
        if id != JOB {
            return Err(Status::JobNotFound);
        }
        Ok(DrainInfo {
            state: 2,
            state_name: "RUNNING",
            created_ms: 1000,
            updated_ms: 2000,
            segments: vec!["127.0.0.1:17001".to_owned()],
            succeeded_units: 3,
            failed_units: 1,
            blocked_units: 2,
            active_units: 4,
            migrated_bytes: 4096,
            message: String::new(),
        })
    }

    fn cancel_drain(&self, id: u128) -> Result<(), Status> {
        match id {
            JOB => Ok(()),
            7 => Err(Status::UnavailableInCurrentStatus),
            _ => Err(Status::JobNotFound),
        }
    }

    fn tenants(&self, tenant: Option<&TenantId>) -> Option<Vec<TenantNumbers>> {
        self.has_quotas.then(|| quotas::tenants(tenant))
    }

    fn set_quota(&self, tenant: &TenantId, bytes: u64) -> Result<TenantNumbers, AdminRefusal> {
        quotas::set(tenant, bytes)
    }

    fn remove_quota(&self, tenant: &TenantId) -> Result<(), AdminRefusal> {
        quotas::remove(tenant)
    }

    fn numbers(&self) -> Result<MasterNumbers, Status> {
        let allocated_bytes = self.segments.iter().map(|segment| segment.used_bytes).sum();
        let capacity_bytes = self.segments.iter().map(|segment| segment.usable_bytes).sum();
        Ok(MasterNumbers { allocated_bytes, capacity_bytes, keys: 2, ..Default::default() })
    }

    fn cells(&self) -> Vec<Arc<MasterCells>> {
        vec![Arc::new(MasterCells::default())]
    }
}

struct Text(String);

impl SegmentText for Text {
    fn name(&self) -> &str {
        &self.0
    }

    fn endpoint(&self) -> &str {
        &self.0
    }

    fn protocol(&self) -> &'static str {
        "tcp"
    }
}

fn segment() -> SegmentInfo {
    segment_called("127.0.0.1:17001")
}

fn segment_called(name: &str) -> SegmentInfo {
    SegmentInfo {
        text: Arc::new(Text(name.to_owned())),
        id: (7 << 64) | 8,
        client: (9 << 64) | 10,
        base_address: 0x7f8f_2700_0000,
        capacity_bytes: 64 << 20,
        used_bytes: 9216,
        usable_bytes: 32 << 20,
        largest_free_bytes: 1,
        state: 1,
    }
}

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

fn red_object() -> ObjectInfo {
    ObjectInfo {
        tenant: "red".to_owned(),
        key: "r1".to_owned(),
        payload_bytes: 1024,
        group: None,
        media: vec!["cpu"],
    }
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
fn one_key_is_shown_with_its_places() {
    let found = r#"{"success":true,"data":[{"size_":1024,"buffer_address_":140252811362304,"protocol_":"tcp","transport_endpoint_":"127.0.0.1:17001"}]}"#;
    assert_answer(&live("GET", "/query_key?key=k1"), 200, JSON, found);
    for target in ["/query_key?key=nope", "/query_key", "/query_key?key="] {
        assert_answer(&live("GET", target), 404, JSON, NOT_FOUND);
    }
}

#[test]
fn several_keys_are_shown_in_the_order_asked() {
    let places = r#""disk_values":null,"local_disk_values":null,"nof_values":null"#;
    let place = r#"{"size_":1024,"buffer_address_":140252811362304,"protocol_":"tcp","transport_endpoint_":"127.0.0.1:17001"}"#;
    let body = format!(
        r#"{{"success":true,"data":{{"nope":{{"ok":false,"error":"OBJECT_NOT_FOUND","values":null,{places}}},"k1":{{"ok":true,"error":null,"values":[{place}],{places}}}}}}}"#
    );
    for target in ["/batch_query_keys?keys=nope,k1", "/batch_query_keys?keys=nope%2Ck1,,nope"] {
        assert_answer(&live("GET", target), 200, JSON, &body);
    }
    let disk = r#"{"client_id":"1-2","object_size":7,"transport_endpoint":"127.0.0.1:17002"}"#;
    let on_disk = format!(
        r#"{{"success":true,"data":{{"on-disk":{{"ok":true,"error":null,"values":null,"disk_values":null,"local_disk_values":[{disk}],"nof_values":null}}}}}}"#
    );
    assert_answer(&live("GET", "/batch_query_keys?keys=on-disk"), 200, JSON, &on_disk);
    let none = r#"{"success":false,"error":"No keys provided. Use ?keys=key1,key2,..."}"#;
    assert_answer(&live("GET", "/batch_query_keys"), 400, JSON, none);
    assert_answer(&live("GET", "/batch_query_keys?keys=,"), 400, JSON, none);
}

#[test]
fn keys_are_listed_one_per_line_and_bounded() {
    assert_answer(&live("GET", "/get_all_keys"), 200, METRICS, "k2\nk1\n");
    assert_answer(&live("GET", "/get_all_keys?limit=1"), 200, METRICS, "k2\n");
    assert_eq!(live("GET", "/get_all_keys?limit=-1").status, 400);
}

#[test]
fn keys_in_which_an_expression_is_found_are_listed_by_themselves() {
    assert_answer(&live("GET", "/api/v1/keys?regex=1"), 200, METRICS, "k1\n");
    assert_answer(&live("GET", "/api/v1/keys?regex=k%31"), 200, METRICS, "k1\n");
    assert_answer(&live("GET", "/api/v1/keys?regex=9"), 200, METRICS, "");
    assert_answer(&live("GET", "/api/v1/keys?regex=1&tenant_id=red"), 200, METRICS, "r1\n");
    for (query, word) in
        [("", "?regex="), ("?regex=", "?regex="), ("?regex=(", "no backreferences")]
    {
        let answer = live("GET", &format!("/api/v1/keys{query}"));
        assert!(answer.status == 400 && answer.body.contains(word), "{query}: {}", answer.body);
    }
}

#[test]
fn segments_are_shown_like_in_mooncake() {
    assert_answer(&empty("/get_all_segments"), 200, METRICS, "");
    assert_answer(&live("GET", "/get_all_segments"), 200, METRICS, "127.0.0.1:17001\n");
    let none = r#"{"total_segments":0,"segments":[]}"#;
    assert_answer(&empty("/get_segments_detail"), 200, JSON, none);
    let detail = r#"{"total_segments":1,"segments":[{"segment_name":"127.0.0.1:17001","segment_id":"7-8","client_id":"9-10","base_address":"0x7f8f27000000","size_bytes":67108864,"size_human":"0.0625 GiB","te_endpoint":"127.0.0.1:17001","protocol":"tcp","status":"OK","allocator_used_bytes":9216,"allocator_capacity_bytes":67108864,"allocator_usage_percent":0.01373291015625}]}"#;
    assert_answer(&live("GET", "/get_segments_detail"), 200, JSON, detail);
    let text = "127.0.0.1:17001\nUsed(bytes): 9216\nCapacity(bytes) : 67108864\n";
    assert_answer(&live("GET", "/query_segment?segment=127.0.0.1:17001"), 200, METRICS, text);
    for target in ["/query_segment", "/query_segment?segment=nope"] {
        assert_answer(&live("GET", target), 500, METRICS, "Failed to query segment");
    }
}

#[test]
fn segment_status_is_shown_like_in_mooncake() {
    let target = "/api/v1/segments/status?segment=127.0.0.1%3A17001";
    let found = r#"{"success":true,"segment":"127.0.0.1:17001","status":1,"status_name":"OK","error_code":0,"error_message":""}"#;
    assert_answer(&live("GET", target), 200, JSON, found);
    let unknown = r#"{"success":false,"error_code":-101,"error_message":"SEGMENT_NOT_FOUND"}"#;
    assert_answer(&empty(target), 404, JSON, unknown);
    let missing =
        r#"{"success":false,"error_code":-600,"error_message":"Missing segment query parameter"}"#;
    assert_answer(&live("GET", "/api/v1/segments/status"), 400, JSON, missing);
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
fn a_request_that_names_a_tenant_is_about_that_tenant_alone() {
    for (query, count) in [
        ("", 1),
        ("?force=0", 1),
        ("?force=true", 3),
        ("?tenant_id=default&force=true", 107),
        ("?tenant_id=red", 103),
        ("?force=true&tenant_id=red&tenant_id=red", 103),
        ("?tenant%5Fid=r%65d", 103),
    ] {
        let removed = format!(r#"{{"success":true,"removed_count":{count}}}"#);
        let target = format!("/api/v1/remove_all{query}");
        assert_answer(&live("POST", &target), 200, JSON, &removed);
    }
    assert_answer(&live("GET", "/get_all_keys?tenant_id=red"), 200, METRICS, "r1\n");
    assert_answer(&live("GET", "/get_all_keys?tenant_id=default"), 200, METRICS, "k2\nk1\n");
    assert_eq!(live("GET", "/query_key?key=r1&tenant_id=red").status, 200);
    let batch = live("GET", "/batch_query_keys?keys=r1,k1&tenant_id=red");
    let batch: serde_json::Value = serde_json::from_str(&batch.body).unwrap();
    assert_eq!(
        (&batch["data"]["r1"]["ok"], &batch["data"]["k1"]["ok"]),
        (&true.into(), &false.into())
    );
    for target in ["/query_key?key=r1", "/query_key?key=k1&tenant_id=red"] {
        assert_answer(&live("GET", target), 404, JSON, NOT_FOUND);
    }
}

#[test]
fn a_tenant_that_cannot_be_is_refused_and_nothing_is_removed() {
    for target in [
        "/api/v1/remove_all?tenant_id=_red",
        "/api/v1/remove_all?tenant_id=r%01d&force=true",
        "/api/v1/remove_all?tenant_id=default&tenant_id=red",
        "/api/v1/remove_all?tenant_id=",
        "/api/v1/remove_all?force=true&tenant_id=",
        "/api/v1/remove_all?tenant_id",
        "/api/v1/remove_all?tenant=red",
        "/api/v1/remove_all?TENANT_ID=red&force=true",
        "/api/v1/remove_all?tenant_id%3Dred",
        "/api/v1/remove_all?force=true;tenant_id=red",
        "/api/v1/remove_all?force=",
        "/api/v1/drain_jobs?segment=a",
        "/api/v1/drain_jobs/cancel?job_id=5-9&force=true",
        "/api/v1/drain_jobs/cancel?job_id=",
    ] {
        let answer = live("POST", target);
        assert!(answer.status == 400 && answer.body.contains("-600"), "{target}: {}", answer.body);
    }
    for target in [
        "/get_all_keys?tenant_id=_red",
        "/get_all_segments?tenant_id=red",
        "/query_key?key=%01red%01r1",
        "/batch_query_keys?keys=k1,%01red%01r1",
    ] {
        let answer = live("GET", target);
        assert!(answer.status == 400 && answer.body.contains("-600"), "{target}: {}", answer.body);
    }
}

#[test]
fn a_reading_route_refuses_what_it_does_not_know_and_says_what_it_knows() {
    for (target, part) in [
        ("/get_all_keys?tenant=red", r#"No parameter \"tenant\" here: the known ones are limit"#),
        ("/get_all_keys?limit=1&%74enant=red", r#"\"tenant\""#),
        ("/api/v1/keys?regex=a&Limit=1", "regex and limit and tenant_id"),
        ("/api/v1/keys/inspect?key=a&keys=b", r#"\"keys\""#),
        ("/query_key?keys=k1", "are key and tenant_id"),
        ("/batch_query_keys?key=k1", "are keys and tenant_id"),
        ("/query_segment?name=a", "ones are segment\""),
        ("/api/v1/segments/status?segments=a", "ones are segment\""),
        ("/api/v1/drain_jobs/query?id=5-9", "ones are job_id\""),
        ("/api/v1/tenant_quotas?tenant", r#"\"tenant\""#),
        ("/get_all_segments?a=1", r#"\"a\""#),
        ("/get_segments_detail?a", r#"\"a\""#),
        ("/kv_events/snapshot?from=7", r#"\"from\""#),
        ("/kv_events/status?x=1", r#"\"x\""#),
        ("/api/v1/cluster/verdict?x=1", r#"\"x\""#),
        ("/leader?x=1", r#"\"x\""#),
        ("/role?x=1", "ones are none\""),
        ("/ha_status?x=1", r#"\"x\""#),
    ] {
        let answer = live("GET", target);
        assert!(answer.status == 400 && answer.body.contains(part), "{target}: {}", answer.body);
    }
    let open = ["/?utm=1", "/metrics?name[]=a", "/metrics/summary?x=1", "/health?probe=1"];
    for target in open.into_iter().chain(["/livez?x=1", "/readyz?x=1", "/cluster?x=1"]) {
        assert_eq!(live("GET", target).status, 200, "{target}");
    }
    for target in ["/query_key?key=k1&tenant_id=", "/get_all_segments?tenant_id=default", "/role?&"]
    {
        assert_eq!(live("GET", target).status, 200, "{target}");
    }
}

#[test]
fn a_body_that_may_name_a_tenant_removes_nothing() {
    let remove = |body: &str| {
        let fake = Fake { segments: vec![segment()], down: false, has_quotas: false };
        ask_of(fake, "POST", "/api/v1/remove_all", body)
    };
    for body in ["tenant_id=red", r#"{"tenant_id":"red"}"#] {
        let answer = remove(body);
        assert!(answer.status == 400 && answer.body.contains("?tenant_id=NAME"), "{}", answer.body);
    }
    for body in ["{}", "\n"] {
        assert_eq!(remove(body).status, 200, "{body}");
    }
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
fn drain_jobs_are_created_queried_and_canceled() {
    let fake = || Fake { segments: Vec::new(), down: false, has_quotas: false };
    let create = |body: &str| ask_of(fake(), "POST", "/api/v1/drain_jobs", body);
    let created =
        r#"{"success":true,"job_id":"5-9","status":"CREATED","error_code":0,"error_message":""}"#;
    let answer = create(r#"{"segments":["127.0.0.1:17001"]}"#);
    assert_answer(&answer, 200, JSON, created);
    let query = r#"{"success":true,"job_id":"5-9","type":0,"type_name":"DRAIN","status":2,"status_name":"RUNNING","created_at_ms_epoch":1000,"last_updated_at_ms_epoch":2000,"segments":["127.0.0.1:17001"],"succeeded_units":3,"failed_units":1,"blocked_units":2,"active_units":4,"migrated_bytes":4096,"message":"","error_code":0,"error_message":""}"#;
    let answer = live("GET", "/api/v1/drain_jobs/query?job_id=5-9");
    assert_answer(&answer, 200, JSON, query);
    let canceled =
        r#"{"success":true,"job_id":"5-9","status":"CANCELED","error_code":0,"error_message":""}"#;
    let answer = live("POST", "/api/v1/drain_jobs/cancel?job_id=5-9");
    assert_answer(&answer, 200, JSON, canceled);
}

#[test]
fn refused_drain_jobs_have_mooncakes_codes() {
    let fake = || Fake { segments: Vec::new(), down: false, has_quotas: false };
    let create = |body: &str| ask_of(fake(), "POST", "/api/v1/drain_jobs", body);
    let unknown = r#"{"success":false,"error_code":-101,"error_message":"SEGMENT_NOT_FOUND"}"#;
    assert_answer(&create(r#"{"segments":["x"]}"#), 404, JSON, unknown);
    let busy =
        r#"{"success":false,"error_code":-1010,"error_message":"UNAVAILABLE_IN_CURRENT_STATUS"}"#;
    assert_answer(&create(r#"{"segments":["busy"]}"#), 409, JSON, busy);
    let itself = create(r#"{"segments":["a"],"target_segments":["a"]}"#);
    assert!(itself.status == 400 && itself.body.contains("-600"));
    let broken = create("nonsense");
    let prefix = r#"{"success":false,"error_code":-600,"error_message":"Invalid JSON body: "#;
    assert!(broken.status == 400 && broken.body.starts_with(prefix));
    let wrong =
        r#"{"success":false,"error_code":-600,"error_message":"Missing or invalid job_id"}"#;
    let gone = r#"{"success":false,"error_code":-1402,"error_message":"JOB_NOT_FOUND"}"#;
    for (method, path) in
        [("GET", "/api/v1/drain_jobs/query"), ("POST", "/api/v1/drain_jobs/cancel")]
    {
        for query in ["", "?job_id=", "?job_id=zz", "?job_id=1-", "?job_id=1-99999999999999999999"]
        {
            assert_answer(&live(method, &format!("{path}{query}")), 400, JSON, wrong);
        }
        assert_answer(&live(method, &format!("{path}?job_id=1-2")), 404, JSON, gone);
    }
    let moving = live("POST", "/api/v1/drain_jobs/cancel?job_id=0-7");
    assert_answer(&moving, 409, JSON, busy);
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
    let snapshot = r#"{"sequence":6}
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

/// The pieces in which a body is sent.
fn pieces_of(fake: Fake, target: &str) -> Vec<String> {
    let request = Request::builder().uri(target).body(Body::empty()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let mut body = router(context(fake)).oneshot(request).await.unwrap().into_body();
        let mut pieces = Vec::new();
        while let Some(frame) = body.frame().await {
            let data = frame.unwrap().into_data().unwrap();
            pieces.push(String::from_utf8(data.to_vec()).unwrap());
        }
        pieces
    })
}

#[test]
fn large_listings_come_in_pieces_that_are_whole_together() {
    const SEGMENTS: usize = 2 * SEGMENTS_PER_PIECE + 1;
    let names: Vec<String> = (0..SEGMENTS).map(|number| format!("host-{number}:1")).collect();
    let fake = || Fake {
        segments: names.iter().map(|it| segment_called(it)).collect(),
        down: false,
        has_quotas: false,
    };
    let pieces = pieces_of(fake(), "/get_all_segments");
    assert_eq!(pieces.len(), 3);
    assert!(pieces.concat().lines().eq(names.iter()));
    let pieces = pieces_of(fake(), "/get_segments_detail");
    assert_eq!(pieces.len(), 3);
    let detail: serde_json::Value = serde_json::from_str(&pieces.concat()).unwrap();
    assert_eq!(detail["total_segments"], SEGMENTS);
    let rows = detail["segments"].as_array().unwrap();
    assert!(rows.iter().map(|row| row["segment_name"].as_str().unwrap()).eq(names.iter()));
}

#[test]
fn metrics_of_many_segments_come_in_pieces_and_each_segment_has_its_series() {
    let names: Vec<String> = (0..4096).map(|number| format!("{number:0>200}")).collect();
    let segments = names.iter().map(|name| segment_called(name)).collect();
    let pieces = pieces_of(Fake { segments, down: false, has_quotas: false }, "/metrics");
    assert!(pieces.len() > 8, "{}", pieces.len());
    assert!(pieces.iter().all(|piece| piece.len() < 1 << 20));
    let text = pieces.concat();
    let series = |name: &str| text.lines().filter(|line| line.starts_with(name)).count();
    assert_eq!(series("segment_allocated_bytes{"), names.len());
    assert_eq!(series("perigee_segment_largest_free_bytes{"), names.len());
    assert!(text.contains("\nperigee_segments 4096\n"));
}

#[test]
fn many_keys_are_looked_up_step_by_step_and_shown_in_pieces() {
    let keys: Vec<String> = (0..=LOOKED_UP_AT_A_TIME).map(|number| format!("k{number}")).collect();
    let fake = Fake { segments: Vec::new(), down: false, has_quotas: false };
    let pieces = pieces_of(fake, &format!("/batch_query_keys?keys={}", keys.join(",")));
    assert_eq!(pieces.len(), 2);
    let found: serde_json::Value = serde_json::from_str(&pieces.concat()).unwrap();
    let data = found["data"].as_object().unwrap();
    assert_eq!(data.len(), keys.len());
    assert!(data.iter().all(|(key, entry)| entry["ok"] == (key == "k1")));
}
