//! Requests that name a tenant.

use super::*;

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
