//! Clients of several tenants at one master. Invariant: none sees, counts, changes or removes what
//! is another one's, whatever it calls its keys.

use crate::cluster::{ANY, config, data, environment, get, master, piece, put, store};
use perigee_activity::{PageDirectory, RingsSeen, pages};
use perigee_schemas::Status;
use perigee_schemas::limits::KEY_BYTES_MAX;
use perigee_service::Cluster;
use perigee_store::{PutRequest, ReplicateConfig, Store, StoreConfig};
use std::collections::BTreeSet;

fn of_tenant(cluster: &Cluster, tenant: &str) -> Store {
    let config = StoreConfig { tenant_id: tenant.to_owned(), ..config(cluster, ANY, 0) };
    Store::open_with(config, &environment(true)).unwrap()
}

fn put_bytes(store: &Store, key: &str, seed: usize) -> Status {
    put(store, key, &data(seed, 5000), &ReplicateConfig::default())
}

#[test]
fn the_same_keys_of_several_tenants_are_different_objects() {
    let cluster = master(&["--rpc_shards=3"]);
    let node = store(&cluster, ANY, 64 << 20, true);
    let tenants = ["default", "red", "re", "red blue/1"];
    let clients = tenants.map(|tenant| of_tenant(&cluster, tenant));
    let longest = "k".repeat(KEY_BYTES_MAX);
    for (seed, client) in clients.iter().enumerate() {
        for key in ["key", "red", &longest] {
            assert_eq!(client.exists(key), Ok(false));
            assert_eq!(put_bytes(client, key, seed), Status::Ok);
        }
    }
    for (seed, client) in clients.iter().enumerate() {
        assert!(get(client, "key").unwrap() == data(seed, 5000));
        assert!(get(client, &longest).unwrap() == data(seed, 5000));
        let replacement = data(100 + seed, 300);
        let pieces = [piece(&replacement)];
        let request = PutRequest { key: "key", pieces: &pieces, group: None };
        assert_eq!(client.upsert(&[request], &ReplicateConfig::default()), [Status::Ok]);
    }
    for (seed, client) in clients.iter().enumerate() {
        assert!(get(client, "key").unwrap() == data(100 + seed, 300));
    }
    let [default, red, re, blue] = &clients;
    assert_eq!(red.remove(&["key"], true), [Status::Ok]);
    assert_eq!(red.remove_by_regex("^red$", true), Ok(1), "the pattern sees the key alone");
    assert_eq!(re.remove_by_regex("blue", true), Ok(0));
    assert_eq!(default.remove_all(true), Ok(3));
    assert_eq!(red.remove_all(true), Ok(1));
    for client in [re, blue] {
        assert_eq!(client.exist(&["key", "red", &longest]), [Ok(true), Ok(true), Ok(true)]);
    }
    clients.iter().for_each(Store::close);
    node.close();
    cluster.stop();
}

#[test]
fn keys_and_groups_that_look_like_another_tenants_are_refused() {
    let cluster = master(&[]);
    let node = store(&cluster, ANY, 16 << 20, true);
    let (default, red) = (of_tenant(&cluster, ""), of_tenant(&cluster, "red"));
    assert_eq!(put_bytes(&red, "key", 1), Status::Ok);
    let forged = "\u{1}red\u{1}key";
    for client in [&default, &red] {
        assert_eq!(put_bytes(client, forged, 2), Status::InvalidParams);
        assert_eq!(client.exists(forged), Err(Status::InvalidParams));
        assert_eq!(get(client, forged), Err(Status::InvalidParams));
        assert_eq!(client.remove(&[forged], true), [Status::InvalidParams]);
        let value = data(3, 100);
        let pieces = [piece(&value)];
        let group = Some("\u{1}red\u{1}group");
        let request = PutRequest { key: "other", pieces: &pieces, group };
        let config = ReplicateConfig::default();
        assert_eq!(client.put(&[request], &config), [Status::InvalidParams]);
    }
    assert!(get(&red, "key").unwrap() == data(1, 5000));
    [default, red, node].iter().for_each(Store::close);
    cluster.stop();
}

#[test]
fn groups_of_the_same_name_go_each_on_their_own() {
    let cluster = master(&[]);
    let node = store(&cluster, ANY, 16 << 20, true);
    let clients = ["red", "blue"].map(|tenant| of_tenant(&cluster, tenant));
    for (seed, client) in clients.iter().enumerate() {
        let value = data(seed, 1000);
        let pieces = [piece(&value)];
        let request = PutRequest { key: "key", pieces: &pieces, group: Some("group") };
        assert_eq!(client.put(&[request], &ReplicateConfig::default()), [Status::Ok]);
    }
    assert_eq!(clients[0].remove_all(true), Ok(1));
    assert_eq!(clients.each_ref().map(|it| it.exists("key")), [Ok(false), Ok(true)]);
    clients.iter().for_each(Store::close);
    node.close();
    cluster.stop();
}

/// Tenants of the batches that this process has moved over TCP, as an agent reads them.
fn tenants_of_batches() -> BTreeSet<String> {
    let directory = PageDirectory::from_environment().expect("pages are on");
    let own = pages(&directory).into_iter().find(|page| page.pid() == std::process::id());
    let reading = own.expect("this process has a page").marks(&mut RingsSeen::default());
    let marks = reading.expect("a page can be read").recent;
    marks.into_iter().map(|(mark, _)| mark.tenant()).collect()
}

#[test]
fn agents_see_whose_batches_go_over_a_nic() {
    let cluster = master(&[]);
    let node = store(&cluster, ANY, 16 << 20, false);
    let of_tenant = |tenant: &str| {
        let config = StoreConfig { tenant_id: tenant.to_owned(), ..config(&cluster, ANY, 0) };
        Store::open_with(config, &environment(false)).unwrap()
    };
    let (default, red) = (of_tenant("default"), of_tenant("red"));
    assert_eq!(put_bytes(&default, "key", 1), Status::Ok);
    assert_eq!(tenants_of_batches(), BTreeSet::from([String::new()]));
    assert_eq!(put_bytes(&red, "key", 2), Status::Ok);
    // The largest goes by the shards of the client.
    let large = data(3, 4 << 20);
    assert_eq!(put(&red, "large", &large, &ReplicateConfig::default()), Status::Ok);
    assert!(get(&red, "large").unwrap() == large);
    assert_eq!(tenants_of_batches(), BTreeSet::from([String::new(), "red".to_owned()]));
    [default, red, node].iter().for_each(Store::close);
    cluster.stop();
}
