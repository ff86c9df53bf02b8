//! Words the program understands and words it refuses. Invariant: a refusal is one line on standard
//! error and nothing on standard output.

use crate::process::output_of;

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[track_caller]
fn refused(name: &str, arguments: &[&str], code: i32, parts: &[&str]) {
    let output = output_of(name, arguments);
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{message}");
    assert_eq!(message.lines().count(), 1, "{message}");
    assert_eq!(text(&output.stdout), "");
    for part in parts {
        assert!(message.contains(part), "{part:?} is missing in {message}");
    }
}

#[track_caller]
fn printed(name: &str, arguments: &[&str]) -> String {
    let output = output_of(name, arguments);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(text(&output.stderr), "");
    text(&output.stdout)
}

#[test]
fn the_overview_and_the_version_are_printed() {
    assert!(printed("perigee", &["--help"]).contains("mooncake_master"));
    let version = printed("perigee", &["version"]);
    assert!(version.starts_with("perigee "), "{version}");
    assert!(
        version.contains(" (compatible with Mooncake 0.3.13, ")
            && version.ends_with(" eBPF probes)\n"),
        "compatibility and probes are said: {version}"
    );
}

#[test]
fn every_program_describes_itself_under_the_name_it_was_started_as() {
    for name in [
        "mooncake_master",
        "mooncake_client",
        "mooncake_http_metadata_server",
        "transfer_engine_topology_dump",
    ] {
        assert!(printed(name, &["--help"]).starts_with(&format!("{name}: ")));
        assert!(printed(&format!("/opt/{name}"), &["--version"]).starts_with(name));
    }
    for command in
        ["master", "node", "metadata", "status", "drain", "inspect", "topology", "doctor"]
    {
        let help = printed("perigee", &[command, "--help"]);
        assert!(help.starts_with(&format!("perigee {command}: ")), "{help}");
        assert_eq!(printed("perigee", &["help", command]), help);
    }
}

#[test]
fn commands_and_settings_that_do_not_exist_are_refused_with_a_hint() {
    refused("perigee", &["mastr"], 64, &["mastr", "did you mean `master`"]);
    refused("perigee", &[], 64, &["--help"]);
    refused("perigee", &["node", "--prot=1"], 2, &["perigee node: error", "`port`"]);
    refused("mooncake_master", &["--rpc_prt=1"], 2, &["mooncake_master: error", "`rpc_port`"]);
    refused("mooncake_client", &["node"], 2, &["node"]);
    refused("perigee", &["inspect", "limts"], 2, &["inspect limits"]);
    refused("perigee", &["status", "--format=xml"], 2, &["text, json"]);
}

#[test]
fn limits_are_printed_for_people_and_for_programs() {
    assert!(printed("perigee", &["inspect", "limits"]).contains("key_bytes_max"));
    assert!(printed("perigee", &["inspect", "metrics"]).contains("perigee_nic_up"));
    let json = printed("perigee", &["inspect", "limits", "--format=json"]);
    let document: serde_json::Value = json.parse().unwrap();
    assert_eq!(document["key_bytes_max"], 8192);
}

#[test]
fn a_status_without_a_master_names_the_address() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap().to_string();
    drop(free);
    refused("perigee", &["status", &address], 69, &[&address]);
    refused("perigee", &["status", "nowhere"], 64, &["nowhere", "host:port"]);
}

#[test]
fn a_node_without_patience_ends_and_names_its_master() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap().to_string();
    drop(free);
    let master = format!("--master_server_address={address}");
    let output = output_of("mooncake_client", &[&master, "--max_wait_time=0"]);
    assert_eq!(output.status.code(), Some(69));
    assert!(text(&output.stderr).contains(&address));
}
