//! Routes of quotas against a master with two tenants.

use super::*;

const RED: &str = r#"{"tenant_id":"red","requested_quota_bytes":2048,"effective_quota_bytes":1024,"charged_bytes":512,"admission_closed":false,"over_quota":false,"has_explicit_policy":true,"guaranteed_bytes":900,"object_count":3}"#;
const BLUE: &str = r#"{"tenant_id":"blue","requested_quota_bytes":0,"effective_quota_bytes":0,"charged_bytes":7,"admission_closed":true,"over_quota":true,"has_explicit_policy":false,"guaranteed_bytes":0,"object_count":1}"#;

fn ask(method: &str, query: &str, body: &str) -> Answer {
    let fake = Fake { segments: Vec::new(), down: false, has_quotas: true };
    ask_of(fake, method, &format!("/api/v1/tenant_quotas{query}"), body)
}

fn data(body: &str) -> String {
    format!(r#"{{"success":true,"data":{body}}}"#)
}

fn error(code: i32, message: &str) -> String {
    format!(r#"{{"success":false,"error_code":{code},"error_message":"{message}"}}"#)
}

#[test]
fn quotas_are_listed_and_asked_for_one_by_one() {
    assert_answer(&ask("GET", "", ""), 200, JSON, &data(&format!("[{BLUE},{RED}]")));
    assert_answer(&ask("GET", "?tenant_id=red", ""), 200, JSON, &data(RED));
    let unknown = error(-704, "OBJECT_NOT_FOUND");
    assert_answer(&ask("GET", "?tenant_id=green", ""), 404, JSON, &unknown);
    let answer = ask("GET", "?tenant_id=_red", "");
    assert_eq!(answer.status, 400, "{}", answer.body);
}

#[test]
fn quotas_are_set_and_removed_for_a_tenant_that_is_named() {
    let quota = r#"{"requested_quota_bytes":4096}"#;
    let set = data(&RED.replace("2048", "4096"));
    assert_answer(&ask("PUT", "?tenant_id=red", quota), 200, JSON, &set);
    let unwritten = error(-500, "the disk is full");
    assert_answer(&ask("PUT", "?tenant_id=blue", quota), 500, JSON, &unwritten);
    let range = error(-600, "Tenant quota must be in [1, 2^63 - 1] bytes");
    for body in ["", "{}", r#"{"requested_quota_bytes":0}"#, r#"{"requested_quota_bytes":-1}"#] {
        assert_answer(&ask("PUT", "?tenant_id=red", body), 400, JSON, &range);
    }
    assert_answer(&ask("DELETE", "?tenant_id=red", ""), 200, JSON, &data("null"));
    let not_empty = error(-1702, "TENANT_NOT_EMPTY");
    assert_answer(&ask("DELETE", "?tenant_id=blue", ""), 409, JSON, &not_empty);
    let unknown = error(-704, "OBJECT_NOT_FOUND");
    assert_answer(&ask("DELETE", "?tenant_id=green", ""), 404, JSON, &unknown);
    let nameless = error(-600, "Name the tenant: ?tenant_id=NAME");
    assert_answer(&ask("PUT", "", quota), 400, JSON, &nameless);
    assert_answer(&ask("DELETE", "", ""), 400, JSON, &nameless);
}

#[test]
fn each_tenant_has_its_samples() {
    let fake = Fake { segments: Vec::new(), down: false, has_quotas: true };
    let answer = ask_of(fake, "GET", "/metrics", "");
    for line in [
        r#"mooncake_tenant_quota_charged_bytes{tenant_id="red"} 512"#,
        r#"mooncake_tenant_quota_over_quota{tenant_id="blue"} 1"#,
        r#"mooncake_tenant_quota_reject_total{tenant_id="red",reason="quota_exceeded"} 4"#,
        r#"mooncake_tenant_quota_reject_total{tenant_id="_none",reason="tenant_not_registered"} 0"#,
        r#"mooncake_tenant_evict_bytes_total{tenant_id="red"} 99"#,
        "mooncake_tenant_quota_effective_bytes_sum 1024",
    ] {
        assert!(answer.body.lines().any(|it| it == line), "{line}\n{}", answer.body);
    }
    let without = empty("/metrics");
    assert!(!without.body.contains("mooncake_tenant_quota_charged_bytes{"));
}
