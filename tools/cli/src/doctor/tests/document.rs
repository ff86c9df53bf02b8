//! The report as programs, people and another host's `perigee doctor` read it.

use super::sample::Sample;
use super::{all_checks, examine};
use crate::doctor::peers::PeerHost;
use serde_json::Value;

#[test]
fn programs_get_status_findings_and_facts() {
    let sample = Sample::sound();
    sample.sys("class/net/ens1f0np0/mtu", "1500");
    let host = sample.host();
    let document: Value = examine(&host, &all_checks()).json(&host).parse().unwrap();
    assert_eq!(document["status"], "degraded");
    let checks = document["checks"].as_array().unwrap();
    let mtu = checks.iter().find(|check| check["check"] == "rail_mtu").unwrap();
    assert_eq!(mtu["findings"][0]["subject"], "ens1f0np0");
    assert_eq!(mtu["findings"][0]["fix"], "ip link set dev ens1f0np0 mtu 9000");
    assert_eq!(document["facts"]["rails"][0]["gid_type"], "RoCE v2");
}

/// Names of the fields of an object.
fn fields(value: &Value) -> Vec<&str> {
    let object = value.as_object().unwrap();
    object.keys().map(String::as_str).collect()
}

/// Programs rely on these fields: more may come, none may go without a new version.
#[test]
fn the_form_of_the_document_is_version_1() {
    let sample = Sample::sound();
    sample.sys("class/net/ens1f0np0/mtu", "1500");
    sample.remove("bus/pci/devices");
    let host = sample.host();
    let document: Value = examine(&host, &all_checks()).json(&host).parse().unwrap();
    assert_eq!(document["version"], 1);
    assert_eq!(fields(&document), ["checks", "facts", "status", "version"]);
    let checks = document["checks"].as_array().unwrap();
    let of = |status: &str| checks.iter().find(|check| check["status"] == status).unwrap();
    assert_eq!(fields(of("ok")), ["check", "findings", "status"]);
    assert_eq!(fields(of("skipped")), ["check", "findings", "reason", "status"]);
    let finding = &of("degraded")["findings"][0];
    assert_eq!(fields(finding), ["fix", "message", "severity", "subject"]);
    let rail = fields(&document["facts"]["rails"][0]);
    assert_eq!(rail, ["gid_type", "mtu", "name", "node", "speed_mbps"]);
}

#[test]
fn a_report_is_read_back_as_a_peers() {
    let (one, other) = (Sample::sound(), Sample::sound());
    for rail in 0..2 {
        other.sys(&format!("class/net/ens{rail}f0np0/mtu"), "4200");
    }
    let host = other.host();
    let path = other.folder().join("report.json");
    std::fs::write(&path, examine(&host, &[]).json(&host)).unwrap();
    let mut host = one.host();
    host.peers = vec![PeerHost::read(path.to_str().unwrap()).unwrap()];
    let report = examine(&host, &all_checks());
    let found: Vec<&str> = report.findings().map(|(check, _)| check.name).collect();
    assert_eq!(found, ["peer_mtu"]);
    assert!(PeerHost::read("/no/such/report").is_err());
    let other = r#"{"version": 99, "facts": {"rails": []}}"#;
    std::fs::write(&path, other).unwrap();
    let message = PeerHost::read(path.to_str().unwrap()).unwrap_err().to_string();
    assert!(message.contains("version is 99"), "{message}");
    std::fs::write(&path, "{\"status\": \"ok\"}").unwrap();
    let message = PeerHost::read(path.to_str().unwrap()).unwrap_err().to_string();
    assert!(message.contains("perigee doctor --format=json"), "{message}");
}

#[test]
fn sizes_of_memory_are_printed_in_units_for_people() {
    let sample = Sample::sound();
    sample.proc("self/cgroup", "0::/pod/engine");
    sample.sys("fs/cgroup/pod/memory.max", "4294967296");
    let mut host = sample.host();
    host.segment_bytes = 10 << 40;
    let text = examine(&host, &all_checks()).text(false);
    let expected = "the container may use 4.0 GiB and the segment needs 10.0 TiB";
    assert!(text.contains(expected), "{text}");
}
