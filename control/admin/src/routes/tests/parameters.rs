//! Query parameters of routes that read.

use super::*;

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
