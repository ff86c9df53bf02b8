//! Tenants through the doors of real processes: clients, nodes and the master's HTTP routes.
//! Invariant: what names a tenant reaches that tenant's objects and no other's.

use perigee_schemas::Status;
use perigee_store::ask_node;
use perigee_tests::cluster::{Master, Node};
use perigee_tests::http;
use perigee_tests::objects::Objects;
use serde_json::Value;
use std::time::Duration;

const POOL_BYTES: u64 = 64 << 20;
const VALUE: &[u8] = &[7; 4096];

#[track_caller]
fn of_tenant(master: &Master, tenant: &str) -> Objects {
    Objects::open_of(&master.address(), tenant)
}

#[track_caller]
fn keys(master: &Master, query: &str) -> Vec<String> {
    let answer = http::get(master.http, &format!("/get_all_keys{query}"));
    let mut keys: Vec<String> = answer.body.lines().map(str::to_owned).collect();
    keys.sort();
    keys
}

#[track_caller]
fn removed(master: &Master, query: &str) -> u64 {
    let route = format!("/api/v1/remove_all{query}");
    let answer = http::request(master.http, "POST", &route).expect("the master answers");
    let body: Value = serde_json::from_str(&answer.body).expect("JSON");
    body["removed_count"].as_u64().expect("a count")
}

#[test]
fn routes_and_clients_of_a_tenant_see_its_objects_alone() {
    let master = Master::start(&[]);
    let _node = Node::start(&master, POOL_BYTES);
    let clients = ["default", "red", "blue"].map(|tenant| of_tenant(&master, tenant));
    for (number, client) in clients.iter().enumerate() {
        for key in (0..=number).map(|key| format!("k{key}")) {
            assert_eq!(client.put(&key, VALUE), Status::Ok);
        }
    }
    assert_eq!(keys(&master, ""), ["k0"]);
    assert_eq!(keys(&master, "?tenant_id=red"), ["k0", "k1"]);
    assert_eq!(keys(&master, "?tenant_id=blue"), ["k0", "k1", "k2"]);
    assert!(keys(&master, "?tenant_id=green").is_empty());
    let matching = |query: &str| {
        let found = http::get(master.http, &format!("/api/v1/keys?regex={query}"));
        assert_eq!(found.status, 200, "{query}: {}", found.body);
        let mut keys: Vec<String> = found.body.lines().map(str::to_owned).collect();
        keys.sort();
        keys
    };
    assert_eq!(matching("[12]$&tenant_id=blue"), ["k1", "k2"]);
    assert_eq!(matching("%5Ek"), ["k0"], "the key of the tenant default alone");
    let listed = clients[2].store.keys_by_regex("[12]$", 10).map(|keys| keys.len());
    assert_eq!(listed, Ok(2), "as a client lists them");
    let status = |route: &str| http::get(master.http, route).status;
    assert_eq!(status("/api/v1/keys?regex=("), 400);
    assert_eq!(status("/query_key?key=k1"), 404);
    assert_eq!(status("/query_key?key=k1&tenant_id=red"), 200);
    let batch = http::get(master.http, "/batch_query_keys?keys=k1,k2&tenant_id=red").body;
    let batch: Value = serde_json::from_str(&batch).expect("JSON");
    assert_eq!([&batch["data"]["k1"]["ok"], &batch["data"]["k2"]["ok"]], [true, false]);
    assert_eq!(removed(&master, "?force=true&tenant_id=green"), 0);
    assert_eq!(removed(&master, "?force=true&tenant_id=red"), 2);
    assert!(!clients[1].exists("k0") && clients[0].exists("k0") && clients[2].exists("k2"));
    assert_eq!(removed(&master, "?force=true"), 4, "without a tenant it is about all of them");
}

#[test]
fn a_node_tells_programs_of_its_host_its_tenant_and_its_rails() {
    let master = Master::start(&[]);
    let rails = ["--protocol=rdma", "--device_names=mlx5_8,mlx5_9"];
    let node = Node::start_with(&master, POOL_BYTES, &["--tenant_id=red", rails[0], rails[1]]);
    let (_, port) = node.name.rsplit_once(':').expect("a name with a port");
    let port = port.parse().expect("a port");
    let answer = ask_node(port, Duration::from_secs(10)).expect("the node answers");
    assert_eq!((answer.master, answer.tenant_id.as_str()), (master.address(), "red"));
    assert_eq!([answer.protocol, answer.device_names], ["rdma", "mlx5_8,mlx5_9"]);
}
