//! The route about one key.

use super::*;

#[test]
fn a_key_is_inspected_under_the_name_of_its_tenant() {
    let body = |shard| {
        format!(
            r#"{{"shard":{shard},"object":null,"unfinished_puts":0,"departures":[{{"ago_ms":5,"cause":"removed","reason":"its key was removed","medium":"memory","payload_bytes":7,"idle_ms":6,"was_read":true,"replicas_left":0,"no_copy":null}}],"departures_reach_ms":null}}"#
        )
    };
    assert_answer(&live("GET", "/api/v1/keys/inspect?key=k1"), 200, JSON, &body(2));
    let of_red = live("GET", "/api/v1/keys/inspect?key=k1&tenant_id=red");
    assert_answer(&of_red, 200, JSON, &body(2 + "\u{1}red\u{1}".len()));
}

#[test]
fn a_missing_key_is_asked_for() {
    let refusal = r#"{"success":false,"error_code":-600,"error_message":"Name a key: ?key=KEY"}"#;
    for target in ["/api/v1/keys/inspect", "/api/v1/keys/inspect?key="] {
        assert_answer(&live("GET", target), 400, JSON, refusal);
    }
}
