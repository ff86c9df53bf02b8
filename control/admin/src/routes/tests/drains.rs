//! Drain jobs.

use super::*;

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
