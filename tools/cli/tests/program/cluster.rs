//! Servers from start to end. Invariant: ports are chosen by the system and read from the log, so
//! tests never compete for one.

use crate::process::{Server, output_of, output_with};
use nix::sys::signal::Signal;
use serde_json::Value;

const MASTER: &[&str] =
    &["--rpc_address=127.0.0.1", "--port=0", "--metrics_host=127.0.0.1", "--metrics_port=0"];

fn status(master: &str) -> Value {
    let output = output_of("perigee", &["status", master, "--format=json"]);
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_node_joins_is_shown_and_leaves_and_both_end_with_success() {
    let master = Server::start("mooncake_master", MASTER);
    let address = master.ready_value("rpc");
    let given = format!("--master_server_address={address}");
    let node = Server::start("mooncake_client", &[&given, "--global_segment_size=16MB"]);
    let name = node.ready_value("name");
    let shown = status(&address);
    assert_eq!(shown["segments"][0]["name"], name);
    assert_eq!(shown["capacity_bytes"], 16 << 20);
    node.stop();
    assert_eq!(status(&address)["segments"], Value::Array(Vec::new()));
    master.stop();
}

#[test]
fn a_node_that_waits_for_its_master_stops_on_request() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap().to_string();
    drop(free);
    let mut node = Server::start("perigee", &["node", "--master_server_address", &address]);
    let line = node.line_with("Not in the cluster yet");
    assert!(line.contains(&address), "{line}");
    node.signal(Signal::SIGINT);
    assert_eq!(node.wait().code(), Some(0));
}

#[test]
fn every_server_names_a_variable_without_effect_once() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let nowhere = format!("--master_server_address={}", free.local_addr().unwrap());
    drop(free);
    let variable = ("MOONCAKE_AWS_SECRET_ACCESS_KEY", "hush");
    for (name, arguments, last) in [
        ("mooncake_master", MASTER, ": Ready "),
        ("mooncake_http_metadata_server", &["--host=127.0.0.1", "--port=0"], ": Ready "),
        ("mooncake_client", &[nowhere.as_str()], "Not in the cluster yet"),
    ] {
        let server = Server::start_with(name, arguments, variable);
        let lines = server.lines_to(last);
        let about: Vec<_> = lines.iter().filter(|line| line.contains(variable.0)).collect();
        assert_eq!(about.len(), 1, "{name}: {lines:?}");
        assert!(about[0].contains(" WARN ") && about[0].contains("snapshots"), "{about:?}");
        assert!(!lines.concat().contains("hush"), "{lines:?}");
    }
}

#[test]
fn metrics_of_a_node_are_not_served_where_mooncakes_variable_says_so() {
    let master = Server::start("mooncake_master", MASTER);
    let given = format!("--master_server_address={}", master.ready_value("rpc"));
    let http = ["--enable_http_server", "--http_host=127.0.0.1", "--http_port=0"];
    let arguments = [&[given.as_str(), "--global_segment_size=16MB"], &http[..]].concat();
    for (value, expected) in [("0", 503), ("1", 200)] {
        let variable = ("MC_STORE_CLIENT_METRIC", value);
        let node = Server::start_with("mooncake_client", &arguments, variable);
        let address = node.ready_value("http");
        let agent = ureq::Agent::config_builder().http_status_as_error(false).build().new_agent();
        for path in ["/metrics", "/metrics/summary"] {
            let answer = agent.get(&format!("http://{address}{path}")).call().unwrap();
            assert_eq!(answer.status().as_u16(), expected, "{path} with {value}");
        }
        node.stop();
    }
}

#[test]
fn a_server_names_its_pod_and_refuses_a_level_that_is_none() {
    let pod = Server::start_with("mooncake_master", MASTER, ("POD_NAME", "store-7"));
    assert!(pod.line_with("This pod").contains("store-7"));
    let wrong =
        output_with("mooncake_http_metadata_server", &["--port=0"], &[("MC_LOG_LEVEL", "loud")]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("write TRACE"), "{wrong:?}");
}

#[test]
fn a_metadata_service_becomes_ready_and_ends_with_success() {
    let arguments = ["--host=127.0.0.1", "--port=0"];
    let service = Server::start("mooncake_http_metadata_server", &arguments);
    assert!(service.ready_value("http").starts_with("127.0.0.1:"));
    service.stop();
}

#[test]
fn a_port_that_is_taken_is_named() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let port = format!("--port={}", address.port());
    let output = output_of("perigee", &["metadata", "--host=127.0.0.1", &port]);
    assert_eq!(output.status.code(), Some(69));
    assert!(String::from_utf8_lossy(&output.stderr).contains(&address.to_string()));
}

#[test]
fn json_logs_are_one_document_per_line() {
    let arguments = ["metadata", "--host=127.0.0.1", "--port=0"];
    let service = Server::start_with("perigee", &arguments, ("PERIGEE_LOG_FORMAT", "json"));
    let line: Value = service.line_with("Ready").parse().unwrap();
    assert_eq!((&line["level"], &line["fields"]["message"]), (&"INFO".into(), &"Ready".into()));
    service.stop();
}

#[test]
fn logs_go_to_the_directory_and_errors_also_to_standard_error() {
    let folder = tempfile::tempdir().unwrap();
    let log_dir = format!("--log_dir={}", folder.path().display());
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = format!("--port={}", taken.local_addr().unwrap().port());
    let arguments = ["--host=127.0.0.1", port.as_str(), log_dir.as_str()];
    let output = output_of("mooncake_http_metadata_server", &arguments);
    let file = folder.path().join("mooncake_http_metadata_server.log");
    let text = std::fs::read_to_string(file).unwrap();
    assert!(text.contains("ERROR") && text.contains("cannot listen"), "{text}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("cannot listen"));
}

#[test]
fn a_log_directory_that_is_not_there_is_said_once_and_stops_nothing() {
    let arguments = ["--host=127.0.0.1", "--port=0", "--log_dir=/no/such/folder"];
    let service = Server::start("mooncake_http_metadata_server", &arguments);
    service.line_with("/no/such/folder");
    service.line_with("Ready");
    service.stop();
}
