//! Quotas of tenants with real processes: the file, the HTTP routes, puts of clients, a restart.
//! Invariant: what one tenant does costs another nothing.

use perigee_schemas::Status;
use perigee_tests::cluster::{MASTER, Master, Node};
use perigee_tests::deadline::wait_until;
use perigee_tests::http::{self, Answer};
use perigee_tests::limits::MEMBERSHIP_DEADLINE;
use perigee_tests::objects::Objects;
use perigee_tests::program::Program;
use serde_json::Value;
use std::path::{Path, PathBuf};

const POOL_BYTES: u64 = 128 << 20;
const OBJECT: usize = 1 << 20;
const QUOTAS: &str =
    "version: 1\ntenants:\n  - name: red\n    quota: 16MB\n  - {name: blue, quota: 16MB}\n";
const ROUTE: &str = "/api/v1/tenant_quotas";

fn file(folder: &Path, text: &str) -> PathBuf {
    let path = folder.join("quotas.yaml");
    std::fs::write(&path, text).expect("a file can be written");
    path
}

fn flags(path: &Path) -> [String; 2] {
    let place = format!("--tenant_quota_connector_uri={}", path.display());
    ["--enable_multi_tenants=true".to_owned(), place]
}

#[track_caller]
fn master(path: &Path) -> Master {
    let [switch, place] = flags(path);
    // Several shards, so that a tenant is charged on all of them; short leases end soon.
    Master::start(&[&switch, &place, "--rpc_shards=3", "--default_kv_lease_ttl=100ms"])
}

#[track_caller]
fn quota(master: &Master, tenant: &str) -> Value {
    let answer = http::get(master.http, &format!("{ROUTE}?tenant_id={tenant}"));
    assert_eq!(answer.status, 200, "{}", answer.body);
    let body: Value = serde_json::from_str(&answer.body).expect("JSON");
    body["data"].clone()
}

fn ask(master: &Master, method: &str, tenant: &str, body: &str) -> Answer {
    let route = format!("{ROUTE}?tenant_id={tenant}");
    http::send(master.http, method, &route, body).expect("the master answers")
}

fn put_all(client: &Objects, count: usize) {
    let value = vec![7; OBJECT];
    for key in 0..count {
        assert_eq!(client.put(&format!("k{key}"), &value), Status::Ok, "key {key}");
    }
}

fn held(client: &Objects, count: usize) -> usize {
    (0..count).filter(|key| client.exists(&format!("k{key}"))).count()
}

#[test]
fn a_tenant_at_its_quota_pays_with_its_own_objects_also_after_a_restart() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = file(folder.path(), QUOTAS);
    let mut master = master(&path);
    let _node = Node::start(&master, POOL_BYTES);
    let [red, blue, green] =
        ["red", "blue", "green"].map(|tenant| Objects::open_of(&master.address(), tenant));
    assert_eq!(green.put("k", b"v"), Status::TenantNotRegistered);
    put_all(&blue, 10);
    put_all(&red, 40);
    let quota_bytes = 16 << 20;
    let charged = quota(&master, "red")["charged_bytes"].as_u64().expect("a number");
    assert!((quota_bytes / 2..=quota_bytes).contains(&charged), "{charged}");
    assert_eq!(held(&blue, 10), 10, "what red does costs blue nothing");
    assert_eq!(red.put("large", &vec![1; 17 << 20]), Status::TenantQuotaExceeded);

    master.program.kill();
    master.start_again();
    wait_until("the objects are known again", MEMBERSHIP_DEADLINE, || {
        quota(&master, "red")["charged_bytes"] == charged && held(&blue, 10) == 10
    });
    put_all(&blue, 12);
    put_all(&red, 40);
    assert_eq!(held(&blue, 12), 12);
    let evicted = master.metric(r#"mooncake_tenant_evict_bytes_total{tenant_id="blue"}"#);
    assert_eq!(evicted, Some(0.0));
}

#[test]
fn quotas_are_changed_over_http_and_written_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = file(folder.path(), QUOTAS);
    let master = master(&path);
    let _node = Node::start(&master, POOL_BYTES);
    let green = Objects::open_of(&master.address(), "green");
    let set = ask(&master, "PUT", "green", r#"{"requested_quota_bytes":4194304}"#);
    assert_eq!(set.status, 200, "{}", set.body);
    let written = std::fs::read_to_string(&path).expect("the file is there");
    assert!(written.contains("\"green\"") && written.contains("4194304"), "{written}");
    put_all(&green, 6);
    let status = Program::run("perigee", &["status", &master.address()]);
    let line = status.output.lines().find(|line| line.starts_with("green")).unwrap_or_default();
    assert!(line.contains("4.0 MiB") && line.ends_with("ok"), "{}", status.output);
    let refused = ask(&master, "DELETE", "green", "");
    let not_empty = r#"{"success":false,"error_code":-1702,"error_message":"TENANT_NOT_EMPTY"}"#;
    assert_eq!((refused.status, &*refused.body), (409, not_empty));
    let wipe = "/api/v1/remove_all?force=true&tenant_id=green";
    assert_eq!(http::request(master.http, "POST", wipe).expect("an answer").status, 200);
    let removed = ask(&master, "DELETE", "green", "");
    assert_eq!((removed.status, &*removed.body), (200, r#"{"success":true,"data":null}"#));
    assert_eq!(green.put("k", b"v"), Status::TenantNotRegistered);
    let strangers =
        r#"mooncake_tenant_quota_reject_total{tenant_id="_none",reason="tenant_not_registered"}"#;
    assert_eq!(master.metric(strangers), Some(1.0));
}

#[test]
fn a_master_does_not_start_with_quotas_that_it_cannot_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = file(folder.path(), "version: 1\ntenants:\n  - name: red\n    quota: 16XB\n");
    for (path, parts) in [
        (path.as_path(), ["line 4", "16XB"]),
        (Path::new("/no/such/file"), ["/no/such/file", "tenants: []"]),
    ] {
        let mut all = flags(path).to_vec();
        all.extend(["--rpc_port=0", "--metrics_port=0"].map(str::to_owned));
        let ended = Program::run(MASTER, &all);
        assert_eq!(ended.code, Some(64), "{}", ended.output);
        assert!(parts.iter().all(|part| ended.output.contains(part)), "{}", ended.output);
    }
}
