//! Every HTTP route of Mooncake's master answers with the same status and content type.
//! Invariant: routes of features that are not built answer as Mooncake does without them.

use perigee_tests::cluster::{Master, Node};
use perigee_tests::http;
use serde_json::Value;

use crate::list::entries;

#[test]
fn routes_answer_with_the_status_and_content_type_of_mooncake() {
    let master = Master::start(&[]);
    let mut differences = Vec::new();
    for [method, path, status, content_type] in entries::<4>(include_str!("lists/http_routes.txt"))
    {
        let answer = http::request(master.http, method, path).unwrap();
        let same_type = content_type == "-" || answer.content_type == content_type;
        if answer.status.to_string() != status || !same_type {
            let found = format!("{} {}", answer.status, answer.content_type);
            differences.push(format!("{method} {path}: {status} {content_type}, not {found}"));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

#[test]
fn health_has_the_fields_of_mooncake() {
    let master = Master::start(&[]);
    let health: Value = serde_json::from_str(&http::get(master.http, "/health").body).unwrap();
    assert_eq!(health["status"], "ok");
    assert_eq!(health["role"], "leader");
    assert_eq!(health["service_ready"], true);
    assert_eq!(http::get(master.http, "/role").body, "leader");
}

#[test]
fn the_list_of_segments_is_empty_until_one_is_mounted() {
    let master = Master::start(&[]);
    assert_eq!(http::get(master.http, "/get_all_segments").body, "");
    let node = Node::start(&master, 16 << 20);
    assert_eq!(http::get(master.http, "/get_all_segments").body.trim_end(), node.name);
}

#[test]
fn a_segment_is_shown_with_the_fields_of_mooncake() {
    let master = Master::start(&[]);
    let node = Node::start(&master, 16 << 20);
    let segment = master.segments().remove(0);
    assert_eq!(segment["segment_name"], node.name.as_str());
    for field in [
        "segment_id",
        "client_id",
        "base_address",
        "size_bytes",
        "size_human",
        "te_endpoint",
        "protocol",
        "status",
        "allocator_used_bytes",
        "allocator_capacity_bytes",
        "allocator_usage_percent",
    ] {
        assert!(!segment[field].is_null(), "{field} is missing in {segment}");
    }
    let path = format!("/query_segment?segment={}", node.name);
    let text = http::get(master.http, &path).body;
    assert!(text.contains("Used(bytes): ") && text.contains("Capacity(bytes) : "), "{text}");
}

#[test]
fn metadata_can_be_written_read_and_removed() {
    let master = Master::start(&[]);
    let path = "/metadata?key=mooncake/ram/127.0.0.1:17001";
    assert_eq!(http::request(master.metadata, "GET", path).unwrap().status, 404);
    for body in ["{\"a\":1}", "{\"a\":2}"] {
        assert_eq!(http::send(master.metadata, "PUT", path, body).unwrap().status, 200);
        assert_eq!(http::get(master.metadata, path).body, body);
    }
    assert_eq!(http::request(master.metadata, "DELETE", path).unwrap().status, 200);
    assert_eq!(http::request(master.metadata, "GET", path).unwrap().status, 404);
}

#[test]
fn a_restarted_client_may_register_its_name_again() {
    let master = Master::start(&[]);
    let path = "/metadata?key=mooncake/rpc_meta/127.0.0.1:17001";
    for port in [1, 2] {
        let body = format!("{{\"ip_or_host_name\":\"127.0.0.1\",\"rpc_port\":{port}}}");
        assert_eq!(http::send(master.metadata, "PUT", path, &body).unwrap().status, 200);
        assert_eq!(http::get(master.metadata, path).body, body);
    }
}
