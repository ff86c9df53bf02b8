//! Keys and segments as they are shown, and large listings in pieces.

use super::*;
use crate::limits::{LOOKED_UP_AT_A_TIME, SEGMENTS_PER_PIECE};

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
