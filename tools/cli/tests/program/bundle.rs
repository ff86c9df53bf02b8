//! The bundle as a program. Invariant: whatever it could not get, there is an archive, and the
//! archive says what it lacks.

use crate::process::{Server, output_of};
use flate2::read::GzDecoder;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::process::Output;

/// The files of an archive, without the folder they lie in.
fn files(path: &Path) -> BTreeMap<String, String> {
    let mut archive = tar::Archive::new(GzDecoder::new(File::open(path).unwrap()));
    let mut files = BTreeMap::new();
    for entry in archive.entries().unwrap() {
        let mut entry = entry.unwrap();
        let name = entry.path().unwrap().display().to_string();
        let (folder, name) = name.split_once('/').unwrap();
        assert!(folder.starts_with("perigee-bundle-"), "{folder}");
        let mut text = String::new();
        entry.read_to_string(&mut text).unwrap();
        files.insert(name.to_owned(), text);
    }
    files
}

fn bundle(path: &Path, more: &[&str]) -> Output {
    let output = format!("--output={}", path.display());
    output_of("perigee", &[&["bundle", "--metrics=", &output], more].concat())
}

#[test]
fn without_agent_and_master_it_says_so_and_holds_the_rest_without_keys() {
    let folder = tempfile::tempdir().unwrap();
    let (path, log) = (folder.path().join("b.tar.gz"), folder.path().join("node.log"));
    std::fs::write(&log, "WARN Bytes were refused key=prompt-7 segment=a\n").unwrap();
    let logs = format!("--logs={},/no/such.log", log.display());
    let done = bundle(&path, &["--agent=127.0.0.1:1", &logs]);
    assert_eq!(done.status.code(), Some(0), "{done:?}");
    let shown = String::from_utf8(done.stdout).unwrap();
    assert!(shown.starts_with(&path.display().to_string()), "{shown}");
    assert!(shown.contains("the agent at 127.0.0.1:1 does not answer"), "{shown}");
    let files = files(&path);
    for lacking in ["no master was named", "127.0.0.1:1", "/no/such.log"] {
        assert!(files["README.txt"].contains(lacking), "{}", files["README.txt"]);
    }
    let doctor: serde_json::Value = files["doctor.json"].parse().unwrap();
    assert_eq!(doctor["version"], 1);
    assert!(files["topology.txt"].lines().count() > 1);
    assert!(files["host/proc/net/dev"].contains("lo:"));
    assert_eq!(files["logs/0-node.log"], "WARN Bytes were refused key=[removed] segment=a\n");
    assert!(files.values().all(|text| !text.contains("prompt-7")));
}

#[test]
fn of_an_agent_and_a_master_it_holds_what_they_show() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("b.tar.gz");
    let ports = ["--rpc_address=127.0.0.1", "--port=0", "--metrics_host=127.0.0.1"];
    let master = Server::start("mooncake_master", &[&ports[..], &["--metrics_port=0"]].concat());
    let master_flag = format!("--master={}", master.ready_value("rpc"));
    let agent = Server::start("perigee", &["agent", "--port=0", "--state_dir=", "--ebpf=false"]);
    let page = agent.ready_value("page");
    let place = page.trim_start_matches("http://").trim_end_matches('/');
    let agent_flag = format!("--agent={place}");
    let done = bundle(&path, &[&agent_flag, &master_flag, "--minutes=1"]);
    assert_eq!(done.status.code(), Some(0), "{done:?}");
    let files = files(&path);
    let json = |name: &str| -> serde_json::Value { files[name].parse().unwrap() };
    assert_eq!(json("cluster/status.json")["segments"], serde_json::json!([]));
    let snapshot = json("agent/snapshot.json");
    assert!(!snapshot["nics"].as_array().unwrap().is_empty());
    let day = json("agent/history-day.json");
    assert!(!day["snapshots"].as_array().unwrap().is_empty());
    assert_eq!(files.keys().filter(|name| name.starts_with("agent/history-1")).count(), 1);
    assert!(files["agent/metrics.txt"].contains("perigee_nic_receive_bytes_total"));
    assert!(files["agent/explain.txt"].contains("interfaces"));
    agent.stop();
    master.stop();
}

#[test]
fn a_place_that_is_taken_or_does_not_exist_is_refused_with_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("b.tar.gz");
    std::fs::write(&path, "mine").unwrap();
    for place in [path.as_path(), Path::new("/no/such/folder/b.tar.gz")] {
        let done = bundle(place, &[]);
        assert_eq!(done.status.code(), Some(2), "{done:?}");
        let said = String::from_utf8(done.stderr).unwrap();
        assert!(said.contains(&place.display().to_string()), "{said}");
        assert!(said.contains("choose another place with --output=FILE"), "{said}");
    }
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "mine");
}
