//! A master, a node and clients in one process: the calls of the store over every route.

use crate::cluster::{ANY, data, get, master, piece, store};
use perigee_rpc::{ClientOptions, LookupPurpose, MasterClient, WirePlacement, WriteForm};
use perigee_schemas::{Identity, Status};
use perigee_service::Cluster;
use perigee_store::{CallerRange, GetRequest, PutRequest, RangeRequest, ReplicateConfig, Store};
use std::sync::Arc;
use std::time::{Duration, Instant};

fn cluster_of(shards: usize) -> Arc<Cluster> {
    master(&[&format!("--rpc_shards={shards}"), "--default_kv_lease_ttl=200"])
}

fn put(store: &Store, key: &str, bytes: &[u8]) -> Status {
    crate::cluster::put(store, key, bytes, &ReplicateConfig::default())
}

fn exercise(shards: usize, shared_memory: bool) {
    let cluster = cluster_of(shards);
    let node = store(&cluster, ANY, 256 << 20, shared_memory);
    let client = store(&cluster, ANY, 0, shared_memory);
    for (seed, bytes) in [1, 4096, 65_536, 1_000_003, 9_000_001].into_iter().enumerate() {
        let key = format!("key-{bytes}");
        let value = data(seed, bytes);
        assert_eq!(put(&client, &key, &value), Status::Ok);
        assert!(get(&client, &key).unwrap() == value);
        assert!(get(&node, &key).unwrap() == value);
        assert_eq!(put(&client, &key, &data(99, bytes)), Status::Ok, "a second put is accepted");
        assert!(get(&client, &key).unwrap() == value, "and changes nothing");
        let mut part = vec![0u8; bytes / 3];
        let target = CallerRange::owned(part.as_mut_ptr() as usize, part.len());
        let request = RangeRequest { key: &key, source_offset: (bytes / 2) as u64, target };
        assert_eq!(client.read_ranges(&[request]), [Ok((bytes / 3) as u64)]);
        assert!(part == value[bytes / 2..bytes / 2 + bytes / 3]);
    }
    assert_eq!(client.exist(&["key-1", "nothing"]), [Ok(true), Ok(false)]);
    assert_eq!(client.remove(&["key-1"], false), [Status::ObjectHasLease]);
    assert_eq!(client.remove(&["key-1", "nothing"], true), [Status::Ok, Status::ObjectNotFound]);
    assert_eq!(get(&client, "key-1"), Err(Status::ObjectNotFound));
    let replacement = data(7, 5000);
    let pieces = [piece(&replacement)];
    let request = PutRequest { key: "key-4096", pieces: &pieces, group: None };
    assert_eq!(client.upsert(&[request], &ReplicateConfig::default()), [Status::Ok]);
    assert!(get(&client, "key-4096").unwrap() == replacement);
    assert_eq!(client.keys_by_regex("^key-4", 10), Ok(vec!["key-4096".to_owned()]));
    assert_eq!(client.keys_by_regex("^nothing", 10), Ok(Vec::new()));
    assert_eq!(client.keys_by_regex("(", 10), Err(Status::InvalidParams));
    assert_eq!(client.remove_by_regex("^key-4", true), Ok(1));
    assert_eq!(client.remove_all(true), Ok(3));
    assert_eq!(client.replicas(&["key-65536"]), [Err(Status::ObjectNotFound)]);
    many_keys(&client);
    client.close();
    assert_eq!(client.exist(&["x"]), [Err(Status::InvalidParams)]);
    node.close();
    cluster.stop();
}

/// Listings of more keys than a page has.
fn listed(client: &Store, keys: &[String]) {
    let mut found = client.keys_by_regex("^many/[0-9]*$", usize::MAX).unwrap();
    found.sort();
    let mut all = keys.to_vec();
    all.sort();
    assert_eq!(found, all);
    assert_eq!(client.keys_by_regex("many", 7).map(|keys| keys.len()), Ok(7));
    assert_eq!(client.keys_by_regex("many", 0), Ok(Vec::new()));
}

fn many_keys(client: &Store) {
    let values: Vec<Vec<u8>> = (0..500).map(|i| data(i, 4096 + i)).collect();
    let keys: Vec<String> = (0..500).map(|i| format!("many/{i}")).collect();
    let pieces: Vec<[CallerRange; 1]> = values.iter().map(|value| [piece(value)]).collect();
    let requests: Vec<PutRequest<'_>> = keys
        .iter()
        .zip(&pieces)
        .map(|(key, pieces)| PutRequest { key, pieces, group: None })
        .collect();
    assert!(
        client
            .put(&requests, &ReplicateConfig::default())
            .iter()
            .all(|status| *status == Status::Ok)
    );
    listed(client, &keys);
    let mut out: Vec<Vec<u8>> = values.iter().map(|value| vec![0; value.len()]).collect();
    let targets: Vec<[CallerRange; 1]> = out
        .iter_mut()
        .map(|out| [CallerRange::owned(out.as_mut_ptr() as usize, out.len())])
        .collect();
    let requests: Vec<GetRequest<'_>> =
        keys.iter().zip(&targets).map(|(key, pieces)| GetRequest { key, pieces }).collect();
    let results = client.get(&requests);
    for ((result, value), out) in results.iter().zip(&values).zip(&out) {
        assert_eq!(*result, Ok(value.len() as u64));
        assert!(out == value);
    }
}

/// A batch that is long and large enough to be read in two parts, with a key missing in each part.
fn large_batch(shared_memory: bool) {
    const KEYS: usize = 40;
    const MISSING: [usize; 2] = [1, KEYS - 2];
    let cluster = cluster_of(1);
    let node = store(&cluster, ANY, 64 << 20, shared_memory);
    let client = store(&cluster, ANY, 0, shared_memory);
    let keys: Vec<String> = (0..KEYS).map(|key| format!("large/{key}")).collect();
    let values: Vec<Vec<u8>> = (0..KEYS).map(|key| data(key, 200_000 + key)).collect();
    for (index, (key, value)) in keys.iter().zip(&values).enumerate() {
        if !MISSING.contains(&index) {
            assert_eq!(put(&client, key, value), Status::Ok);
        }
    }
    let mut out: Vec<Vec<u8>> = values.iter().map(|value| vec![0; value.len()]).collect();
    let targets: Vec<[CallerRange; 1]> = out.iter_mut().map(|out| [piece(out)]).collect();
    let requests: Vec<GetRequest<'_>> =
        keys.iter().zip(&targets).map(|(key, pieces)| GetRequest { key, pieces }).collect();
    // The second time a connection to the master is at hand, so that the other keys are asked for
    // ahead.
    for _ in 0..2 {
        let results = client.get(&requests);
        for (index, result) in results.into_iter().enumerate() {
            if MISSING.contains(&index) {
                assert_eq!(result, Err(Status::ObjectNotFound));
            } else {
                assert_eq!(result, Ok(values[index].len() as u64));
                assert!(out[index] == values[index]);
            }
        }
    }
    client.close();
    node.close();
    cluster.stop();
}

#[test]
fn a_large_batch_over_shared_memory_is_whole_and_in_order() {
    large_batch(true);
}

#[test]
fn a_large_batch_over_tcp_is_whole_and_in_order() {
    large_batch(false);
}

#[test]
fn one_master_shard_and_shared_memory() {
    exercise(1, true);
}

#[test]
fn one_master_shard_and_tcp() {
    exercise(1, false);
}

#[test]
fn three_master_shards_and_tcp() {
    exercise(3, false);
}

/// Puts `value` again and again until there is space, because leases of earlier reads have to end
/// first.
fn put_when_leases_end(store: &Store, key: &str, value: &[u8]) -> Status {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let status = put(store, key, value);
        if status != Status::NoAvailableHandle || Instant::now() > deadline {
            return status;
        }
        std::thread::yield_now();
    }
}

#[test]
fn an_object_may_take_most_of_a_segment_that_several_shards_share() {
    let cluster = cluster_of(4);
    let node = store(&cluster, ANY, 32 << 20, true);
    let client = store(&cluster, ANY, 0, true);
    // Just below the watermark of eviction.
    let large = data(1, (32 << 20) / 100 * 89);
    assert_eq!(put(&client, "large", &large), Status::Ok);
    assert!(get(&client, "large").unwrap() == large);
    let small = data(2, 100_000);
    for number in 0..400 {
        let key = format!("small/{number}");
        assert_eq!(put_when_leases_end(&client, &key, &small), Status::Ok);
    }
    let again = data(3, large.len());
    assert_eq!(put_when_leases_end(&client, "again", &again), Status::Ok);
    assert!(get(&client, "again").unwrap() == again);
    client.close();
    node.close();
    cluster.stop();
}

#[test]
fn shards_that_lend_under_load_lose_no_byte() {
    let cluster = cluster_of(4);
    let node = store(&cluster, ANY, 32 << 20, true);
    let client = store(&cluster, ANY, 0, true);
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let client = &client;
            scope.spawn(move || lend_and_borrow(client, thread));
        }
    });
    assert!(client.remove_all(true).is_ok());
    let large = data(9, (32 << 20) / 10 * 9);
    assert_eq!(put_when_leases_end(&client, "large", &large), Status::Ok);
    assert!(get(&client, "large").unwrap() == large);
    client.close();
    node.close();
    cluster.stop();
}

/// Objects of a few KiB to a third of the segment; what can be read must be what was written.
fn lend_and_borrow(client: &Store, thread: usize) {
    for round in 0..120 {
        let bytes = [4_000, 70_000, 600_000, 3_000_000, 11_000_000][(round * 7 + thread) % 5];
        let key = format!("{thread}/{round}");
        let value = data(thread * 1000 + round, bytes);
        if put(client, &key, &value) == Status::Ok
            && round % 3 == 0
            && let Ok(found) = get(client, &key)
        {
            assert!(found == value, "{key}");
        }
        if round % 4 == 0 {
            client.remove(&[&key], true);
        }
    }
}

/// Starts an upsert of `key`; the generation that names it.
const UPSERT: WriteForm = WriteForm { upsert: true, single: true };

fn start_upsert(client: &MasterClient, key: &str) -> u64 {
    let placement = WirePlacement { replica_num: 1, ..WirePlacement::default() };
    let started = client.put_start(&[key], &[100], &[], &placement, UPSERT);
    started.unwrap().locations[0].generation
}

#[test]
fn of_two_overlapping_upserts_each_is_seen_at_its_end_unless_the_later_one_was() {
    let cluster = cluster_of(1);
    let node = store(&cluster, ANY, 16 << 20, true);
    let [first, second] = [71, 72].map(|number| {
        let address = cluster.address().to_string();
        MasterClient::new(ClientOptions::new(&address, Identity(number)))
    });
    let end = |client: &MasterClient, generation, checksum| {
        client.put_end(&["key"], &[generation], &[checksum], &[], UPSERT).unwrap()
    };
    let checksum = || {
        let located = first.get_replicas(&["key"], true, LookupPurpose::Peek).unwrap();
        located.checksum[0]
    };
    let (earlier, later) = (start_upsert(&first, "key"), start_upsert(&second, "key"));
    assert_eq!(end(&first, earlier, 1), [Status::Ok]);
    assert_eq!(checksum(), 1, "the later one is unfinished");
    assert_eq!(end(&second, later, 2), [Status::Ok]);
    assert_eq!(checksum(), 2);
    let (earlier, later) = (start_upsert(&first, "key"), start_upsert(&second, "key"));
    assert_eq!(end(&second, later, 3), [Status::Ok]);
    assert_eq!(end(&first, earlier, 4), [Status::ObjectAlreadyExists]);
    assert_eq!(checksum(), 3);
    node.close();
    cluster.stop();
}

#[test]
fn asking_where_keys_lie_keeps_no_object_from_eviction() {
    const VALUE_BYTES: usize = 1 << 20;
    let cluster = master(&["--rpc_shards=1", "--default_kv_lease_ttl=60000"]);
    let node = store(&cluster, ANY, 16 << 20, true);
    let value = data(1, VALUE_BYTES);
    let names: Vec<String> = (0..48).map(|number| format!("key-{number}")).collect();
    for (number, name) in names.iter().enumerate() {
        assert_eq!(put(&node, name, &value), Status::Ok, "{name}");
        let known: Vec<&str> = names[..=number].iter().map(String::as_str).collect();
        let described = node.replicas(&known);
        assert!(described.last().unwrap().as_ref().is_ok_and(|it| it.len() == 1), "{name}");
    }
    node.close();
    cluster.stop();
}

/// Upserts a key with several values in one batch.
fn upsert_all(store: &Store, key: &str, values: &[Vec<u8>]) -> Vec<Status> {
    let pieces: Vec<[CallerRange; 1]> = values.iter().map(|value| [piece(value)]).collect();
    let request = |pieces| PutRequest { key, pieces, group: None };
    let requests: Vec<_> = pieces.iter().map(|it| request(it.as_slice())).collect();
    store.upsert(&requests, &ReplicateConfig::default())
}

#[test]
fn of_a_key_that_a_batch_upserts_again_and_again_the_last_value_stays() {
    let cluster = master(&["--rpc_shards=1"]);
    let node = store(&cluster, ANY, 16 << 20, true);
    let values = [1, 2, 3].map(|seed| data(seed, 5000));
    assert_eq!(upsert_all(&node, "d", &values), [Status::Ok; 3]);
    assert!(get(&node, "d").unwrap() == values[2]);
    node.close();
}

#[test]
fn of_upserts_that_race_all_count_as_stored_and_one_stays_whole() {
    let cluster = master(&["--rpc_shards=1"]);
    let node = store(&cluster, ANY, 64 << 20, true);
    let values: Vec<Vec<u8>> = (0..4).map(|seed| data(seed, 50_000)).collect();
    std::thread::scope(|scope| {
        for value in &values {
            scope.spawn(|| {
                for _ in 0..200 {
                    let stored = upsert_all(&node, "raced", std::slice::from_ref(value));
                    assert_eq!(stored, [Status::Ok]);
                }
            });
        }
    });
    let read = get(&node, "raced").unwrap();
    assert!(values.contains(&read));
    node.close();
}

#[test]
fn a_lease_on_one_key_of_a_group_protects_it_on_all_shards() {
    let cluster = master(&["--rpc_shards=4"]);
    let node = store(&cluster, ANY, 16 << 20, true);
    let value = data(1, 1000);
    let pieces = [piece(&value)];
    let keys: Vec<String> = (0..16).map(|number| format!("member-{number}")).collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let request = |key| PutRequest { key, pieces: &pieces, group: Some("group") };
    let requests: Vec<_> = keys.iter().copied().map(request).collect();
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let stored = node.put(&requests, &ReplicateConfig::default());
        assert!(stored.iter().all(|status| *status == Status::Ok));
        assert!(get(&node, keys[0]).is_ok());
        // On a busy machine the lease may end before the removal.
        if node.remove(&keys, false) == vec![Status::ObjectHasLease; keys.len()] {
            break;
        }
        assert!(Instant::now() < deadline, "the members are not protected");
    }
    node.close();
}

#[test]
fn keys_over_the_limit_are_refused_by_every_call_and_cost_the_others_nothing() {
    let cluster = cluster_of(1);
    let _node = store(&cluster, ANY, 16 << 20, true);
    let client = store(&cluster, ANY, 0, true);
    let long = "k".repeat(8193);
    let value = data(1, 1000);
    let pieces = [piece(&value)];
    let request = |key| PutRequest { key, pieces: &pieces, group: None };
    let refused = Status::InvalidKey;
    let config = ReplicateConfig::default();
    let written = client.put(&[request("short"), request(&long)], &config);
    assert_eq!(written, [Status::Ok, refused]);
    assert_eq!(client.upsert(&[request(&long)], &config), [refused]);
    assert_eq!(client.exist(&[&long, "short"]), [Err(refused), Ok(true)]);
    assert_eq!(client.exists(&long), Err(refused));
    assert_eq!(client.size(&["short", &long]), [Ok(1000), Err(refused)]);
    assert_eq!(get(&client, &long), Err(refused));
    assert!(client.replicas(&["short", &long])[1] == Err(refused));
    assert_eq!(client.remove(&[&long, "short"], true), [refused, Status::Ok]);
}

#[test]
fn leases_are_given_back_to_the_shards_that_granted_them() {
    let cluster = master(&["--rpc_shards=3", "--default_kv_lease_ttl=600000"]);
    let _node = store(&cluster, ANY, 24 << 20, true);
    let client = store(&cluster, ANY, 0, true);
    let keys: Vec<String> = (0..12).map(|key| format!("key-{key}")).collect();
    // Four times what the pool holds.
    for round in 0..8 {
        for key in &keys {
            let value = data(round, 1 << 20);
            let pieces = [piece(&value)];
            let request = PutRequest { key, pieces: &pieces, group: None };
            let written = client.upsert(&[request], &ReplicateConfig::default());
            assert_eq!(written, [Status::Ok], "{key}, round {round}");
            assert!(get(&client, key).unwrap() == value);
        }
    }
}
