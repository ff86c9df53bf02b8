//! The service over a real loopback socket. Invariant: answers are compared whole.

use super::*;
use crate::limits::KEY_BYTES_MAX;
use crate::remote::remove_client;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

fn start() -> MetadataHandle {
    MetadataServer::start(SocketAddr::from(([127, 0, 0, 1], 0))).expect("a loopback port is free")
}

/// Status and body of one request.
fn ask(handle: &MetadataHandle, method: &str, target: &str, body: &str) -> (u16, String) {
    ask_with(handle, method, target, body, "")
}

/// The same, with further headers, each with its line end.
fn ask_with(
    handle: &MetadataHandle,
    method: &str,
    target: &str,
    body: &str,
    headers: &str,
) -> (u16, String) {
    let mut stream = TcpStream::connect(handle.local_addr()).expect("the service listens");
    stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a timeout can be set");
    let length = body.len();
    let request = format!(
        "{method} {target} HTTP/1.1\r\nHost: a\r\n{headers}Connection: close\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).expect("the service reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("the answer is text");
    let (head, body) = answer.split_once("\r\n\r\n").expect("the answer has a head");
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok());
    (status.expect("the head has a status"), body.to_owned())
}

fn said(status: u16, body: &str) -> (u16, String) {
    (status, body.to_owned())
}

#[test]
fn answers_are_those_of_mooncake() {
    let service = start();
    let key = "/metadata?key=mooncake/ram/a:1";
    assert_eq!(ask(&service, "GET", key, ""), said(404, "metadata not found"));
    assert_eq!(ask(&service, "PUT", key, r#"{"a":1}"#), said(200, "metadata updated"));
    assert_eq!(ask(&service, "PUT", key, r#"{"a":2}"#), said(200, "metadata updated"));
    assert_eq!(ask(&service, "GET", key, ""), said(200, r#"{"a":2}"#));
    assert_eq!(ask(&service, "DELETE", key, ""), said(200, "metadata deleted"));
    assert_eq!(ask(&service, "DELETE", key, ""), said(404, "metadata not found"));
    assert_eq!(ask(&service, "GET", "/health", ""), said(200, "OK"));
    assert_eq!(ask(&service, "GET", "/", ""), said(404, "404 Not Found"));
    for target in ["/metadata", "/metadata?key="] {
        assert_eq!(ask(&service, "GET", target, ""), said(400, "Missing key parameter"));
    }
    assert_eq!(ask(&service, "POST", key, "{}"), said(405, "Method not allowed"));
}

#[test]
fn a_restarted_client_may_register_its_name_again() {
    let service = start();
    let key = "/metadata?key=mooncake/rpc_meta/a:1";
    assert_eq!(ask(&service, "PUT", key, r#"{"rpc_port":1}"#), said(200, "metadata updated"));
    assert_eq!(ask(&service, "PUT", key, r#"{"rpc_port":1}"#), said(200, "metadata unchanged"));
    assert_eq!(ask(&service, "PUT", key, r#"{"rpc_port":2}"#), said(200, "metadata updated"));
    assert_eq!(ask(&service, "GET", key, ""), said(200, r#"{"rpc_port":2}"#));
}

#[test]
fn encoded_and_raw_names_find_each_other() {
    let service = start();
    ask(&service, "PUT", "/metadata?key=mooncake%2Fram%2Fa%3A1", "x");
    assert_eq!(ask(&service, "GET", "/metadata?key=mooncake/ram/a:1", ""), said(200, "x"));
}

#[test]
fn stored_json_has_its_content_type() {
    let service = start();
    ask(&service, "PUT", "/metadata?key=k", "{}");
    let mut stream = TcpStream::connect(service.local_addr()).unwrap();
    stream.write_all(b"GET /metadata?key=k HTTP/1.0\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.to_lowercase().contains("\r\ncontent-type: application/json\r\n"), "{answer}");
}

#[test]
fn web_pages_change_nothing() {
    let service = start();
    let key = "/metadata?key=k";
    assert_eq!(ask(&service, "PUT", key, "1").0, 200);
    for header in ["Origin: http://evil.example", "Origin: http://a", "Sec-Fetch-Site: cross-site"]
    {
        let header = format!("{header}\r\n");
        for method in ["PUT", "DELETE"] {
            assert_eq!(ask_with(&service, method, key, "2", &header).0, 403, "{header}");
        }
        assert_eq!(ask_with(&service, "GET", key, "", &header), said(200, "1"));
    }
}

#[test]
fn huge_names_and_bodies_are_refused() {
    let service = start();
    let target = format!("/metadata?key={}", "k".repeat(KEY_BYTES_MAX + 1));
    assert_eq!(ask(&service, "GET", &target, "").0, 400);
    let body = "x".repeat((1 << 20) + 1);
    let mut stream = TcpStream::connect(service.local_addr()).unwrap();
    let head = format!(
        "PUT /metadata?key=k HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 413");
    assert!(service.store().is_empty());
}

#[test]
fn records_of_an_expired_client_are_removed_over_http() {
    let service = start();
    for key in ["mooncake/east/ram/a:1", "mooncake/east/rpc_meta/a:1", "mooncake/east/ram/b:1"] {
        ask(&service, "PUT", &format!("/metadata?key={key}"), "{}");
    }
    let url = format!("http://{}/metadata", service.local_addr());
    assert_eq!(remove_client(&url, "east", "a:1"), Ok(2));
    assert_eq!(remove_client(&url, "east", "a:1"), Ok(0));
    assert_eq!(service.store().len(), 1);
}

#[test]
fn an_absent_service_is_reported_by_the_remover() {
    // This port has no listener. A port that was just released could be taken already.
    assert!(remove_client("http://127.0.0.1:1/metadata", "", "a:1").is_err());
}
