//! The store over real verbs, with real processes: a master, a node with `--protocol=rdma` and a
//! client that asks for RDMA, shared memory off. Soft-RoCE in the virtual machine of this folder;
//! the node has devices 0 and 1, the client 2 and 3. Where there are fewer, the test prints SKIP.
#![expect(clippy::print_stderr, reason = "a test that does not run says so")]

use perigee_metrics::{BuildInfo, Samples};
use perigee_schemas::{SegmentKind, Status};
use perigee_store::{
    CallerRange, GetRequest, PutRequest, RangeRequest, ReplicateConfig, Store, StoreConfig,
    StoreEnvironment,
};
use perigee_tests::cluster::{Master, NODE, node_flags};
use perigee_tests::network::free_ports;
use perigee_tests::program::Program;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const LONG: Duration = Duration::from_secs(120);
const SEGMENT_BYTES: &str = "192mb";
const SIZES: [usize; 6] = [1, 4096, 65_000, 65_537, 1 << 20, 3_000_001];

fn devices() -> Option<Vec<String>> {
    let names = std::env::var("PERIGEE_VM_DEVICES").unwrap_or_default();
    let names: Vec<String> = names.split_whitespace().map(str::to_owned).collect();
    if names.len() >= 4 {
        return Some(names);
    }
    eprintln!(
        "SKIP: the store over real verbs needs 4 devices of the virtual machine, there are {}",
        names.len()
    );
    None
}

fn start_node(master: &Master, devices: &[String]) -> Program {
    start_node_with(master, devices, SEGMENT_BYTES, &[])
}

fn start_node_with(
    master: &Master,
    devices: &[String],
    segment_bytes: &str,
    more: &[String],
) -> Program {
    let [port] = free_ports();
    let mut flags = node_flags(master, port, segment_bytes);
    flags.extend_from_slice(more);
    flags.retain(|flag| !flag.starts_with("--protocol"));
    flags.push("--protocol=rdma".to_owned());
    flags.push(format!("--device_names={}", devices.join(",")));
    flags.push("--shared_memory=false".to_owned());
    let node = Program::start(NODE, &flags);
    master.wait_for_segments(1);
    node
}

fn open(master: &Master, devices: &[String]) -> Store {
    open_at(master.address(), devices)
}

fn open_at(master_server_address: String, devices: &[String]) -> Store {
    let config = StoreConfig {
        local_hostname: "127.0.0.1".to_owned(),
        metadata_server: "P2PHANDSHAKE".to_owned(),
        global_segment_bytes: 0,
        local_buffer_bytes: 1 << 20,
        protocol: "rdma".to_owned(),
        device_name: devices.join(","),
        master_server_address,
        tenant_id: "default".to_owned(),
        http_port: None,
        disks: None,
    };
    let variable = |name: &str| (name == "PERIGEE_SHARED_MEMORY").then(|| "0".to_owned());
    let environment = StoreEnvironment::from_variables(variable).expect("it is well formed");
    Store::open_with(config, &environment).expect("the client joins the cluster")
}

/// Payload bytes that the client counted on a route: written and read.
fn moved(store: &Store, route: &str) -> [u64; 2] {
    let build = BuildInfo { version: "", commit: "", reactor: "epoll" };
    let text = Samples::of_client([store.cells()], "real", build).render();
    ["write", "read"].map(|direction| {
        let name =
            format!("perigee_transfer_bytes_total{{route=\"{route}\",direction=\"{direction}\"}} ");
        let line = text.lines().find_map(|line| line.strip_prefix(&name));
        line.and_then(|value| value.parse().ok()).unwrap_or(0)
    })
}

/// Packets that devices have sent and received.
fn packets(devices: &[String]) -> [u64; 2] {
    ["sent_pkts", "rcvd_pkts"].map(|counter| {
        let path = |device| format!("/sys/class/infiniband/{device}/ports/1/hw_counters/{counter}");
        let read = |device| std::fs::read_to_string(path(device)).ok()?.trim().parse().ok();
        devices.iter().map(|device| read(device).unwrap_or(0)).sum::<u64>()
    })
}

fn pattern(seed: usize, bytes: usize) -> Vec<u8> {
    let byte = |index: usize| (index * 31 + seed * 17 + (index >> 9)) as u8;
    (0..bytes).map(byte).collect()
}

fn piece(bytes: &[u8]) -> [CallerRange; 1] {
    [CallerRange::owned(bytes.as_ptr() as usize, bytes.len())]
}

fn put(store: &Store, objects: &[(String, Vec<u8>)]) -> Vec<Status> {
    let pieces: Vec<_> = objects.iter().map(|(_, bytes)| piece(bytes)).collect();
    let requests: Vec<_> = objects
        .iter()
        .zip(&pieces)
        .map(|((key, _), pieces)| PutRequest { key, pieces, group: None })
        .collect();
    store.put(&requests, &ReplicateConfig::default())
}

fn get(store: &Store, objects: &[(String, Vec<u8>)]) {
    let room: Vec<_> = objects.iter().map(|(_, bytes)| vec![0u8; bytes.len()]).collect();
    let pieces: Vec<_> = room.iter().map(|bytes| piece(bytes)).collect();
    let requests: Vec<_> =
        objects.iter().zip(&pieces).map(|((key, _), pieces)| GetRequest { key, pieces }).collect();
    for (((key, bytes), read), back) in objects.iter().zip(store.get(&requests)).zip(&room) {
        assert_eq!(read, Ok(bytes.len() as u64), "{key}");
        assert!(back == bytes, "{key} has other bytes");
    }
}

/// Stores and reads batches; every byte is checked.
fn exercise(store: &Store, name: &str) {
    let object = |(seed, bytes): (usize, &usize)| {
        (format!("{name}-{seed}"), pattern(seed + name.len(), *bytes))
    };
    let objects: Vec<_> = SIZES.iter().enumerate().map(object).collect();
    assert!(put(store, &objects).iter().all(|status| *status == Status::Ok), "{name}");
    get(store, &objects);
    for pair in &objects {
        get(store, std::slice::from_ref(pair));
    }
    let (key, bytes) = &objects[5];
    let back = vec![0u8; 200_000];
    let request = RangeRequest { key, source_offset: 70_000, target: piece(&back)[0] };
    assert_eq!(store.read_ranges(&[request]), [Ok(200_000)]);
    assert!(back == bytes[70_000..270_000]);
    let keys: Vec<&str> = objects.iter().map(|(key, _)| key.as_str()).collect();
    store.remove(&keys, true);
}

/// Exercises the store until both directions go over a route.
fn until_moved(store: &Store, route: &str, name: &str) {
    let end = Instant::now() + LONG;
    for round in 0.. {
        let before = moved(store, route);
        exercise(store, &format!("{name}-{round}"));
        let after = moved(store, route);
        if after[0] > before[0] && after[1] > before[1] {
            return;
        }
        assert!(Instant::now() < end, "{name}: nothing goes over {route}");
    }
}

fn rail(action: &str, number: usize) {
    let script = std::env::var("PERIGEE_VM_RAIL").expect("the machine names its script");
    let arguments = [script, action.to_owned(), number.to_string()];
    let done = Command::new("bash").args(arguments).status();
    assert!(done.expect("bash runs").success(), "rail {number} {action}");
}

#[test]
fn objects_go_over_rdma_and_over_tcp_where_the_rails_are_cut() {
    let Some(devices) = devices() else {
        return;
    };
    let master = Master::start(&[]);
    let _node = start_node(&master, &devices[..2]);
    let store = open(&master, &devices[2..4]);
    until_moved(&store, "rdma", "first");
    let (counted, before) = (packets(&devices[2..4]), moved(&store, "rdma"));
    let bytes = 8 << 20;
    let large = vec![("registered".to_owned(), pattern(5, bytes))];
    let address = large[0].1.as_ptr() as usize;
    assert_eq!(store.register_buffer(address, bytes), Status::Ok);
    assert_eq!(put(&store, &large), [Status::Ok]);
    get(&store, &large[..]);
    assert_eq!(store.unregister_buffer(address), Status::Ok);
    exercise(&store, "again");
    let (packets, after) = (packets(&devices[2..4]), moved(&store, "rdma"));
    assert!(after[0] - before[0] >= bytes as u64, "{before:?} {after:?}");
    for (direction, counter) in [(0, 0), (1, 1)] {
        // A packet carries 4096 bytes at most.
        let carried = (packets[counter] - counted[counter]) * 4096;
        let reported = after[direction] - before[direction];
        assert!(carried >= reported, "{carried} bytes at most in packets, {reported} reported");
    }
    rail("cut", 2);
    until_moved(&store, "rdma", "one-rail");
    rail("cut", 3);
    until_moved(&store, "tcp", "no-rail");
    rail("join", 2);
    rail("join", 3);
    until_moved(&store, "rdma", "mended");
    store.close();
}

/// Nothing leaves memory without a copy.
const AT_EVICTION: [&str; 5] = [
    "--rpc_shards=2",
    "--enable_offload",
    "--offload_on_evict",
    "--offload_force_evict=false",
    "--default_kv_lease_ttl=50",
];
const DISK_OBJECT_BYTES: usize = 256 << 10;
/// Some three times what the node's memory holds.
const DISK_OBJECTS: usize = 288;
/// Objects of one call: less than a reader may hold of a stage.
const DISK_GROUP: usize = 32;
const KILLS: usize = 3;
/// Names the master of a process that reads until it is killed.
const READER: &str = "PERIGEE_TEST_READER";
const READS_WELL: &str = "reads over RDMA";

fn disk_object(number: usize) -> (String, Vec<u8>) {
    (format!("disk-{number}"), pattern(number, DISK_OBJECT_BYTES))
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + LONG;
    while !is_so() {
        assert!(Instant::now() < end, "{what} does not come");
        std::thread::park_timeout(Duration::from_millis(20));
    }
}

fn is_only_on_disk(store: &Store, number: usize) -> bool {
    let found = store.replicas(&[&disk_object(number).0]).remove(0).unwrap_or_default();
    found.iter().map(|replica| replica.kind).eq([Some(SegmentKind::Disk)])
}

/// Reads objects in one call; whether all bytes came over RDMA and none over TCP.
fn comes_over_rdma(store: &Store, objects: &[(String, Vec<u8>)]) -> bool {
    let read = |route| moved(store, route)[1];
    let before = [read("rdma"), read("tcp")];
    get(store, objects);
    let bytes: usize = objects.iter().map(|(_, bytes)| bytes.len()).sum();
    [read("rdma") - before[0], read("tcp") - before[1]] == [bytes as u64, 0]
}

/// A process that reads objects of a disk over RDMA until it is killed.
fn start_reader(master: &Master, devices: &[String], numbers: &[usize]) -> Child {
    let numbers: Vec<String> = numbers.iter().map(usize::to_string).collect();
    let mut reader = Command::new(std::env::current_exe().expect("its own path"))
        .args(["--exact", "reads_a_disk_until_it_is_killed", "--ignored", "--nocapture"])
        .env(READER, [master.address(), devices.join(","), numbers.join(",")].join(" "))
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let said = BufReader::new(reader.stdout.take().expect("it was piped"));
    let mut lines = said.lines().map_while(Result::ok);
    assert!(lines.any(|line| line.contains(READS_WELL)), "the reader ended");
    reader
}

#[test]
#[ignore = "a process of the test below"]
fn reads_a_disk_until_it_is_killed() {
    let words = std::env::var(READER).unwrap_or_default();
    let [address, devices, numbers] = words.split(' ').collect::<Vec<_>>()[..] else {
        return;
    };
    let devices: Vec<String> = devices.split(',').map(str::to_owned).collect();
    let store = open_at(address.to_owned(), &devices);
    let numbers = numbers.split(',').map(|number| number.parse().expect("a number"));
    let objects: Vec<_> = numbers.map(disk_object).collect();
    until("a read over RDMA", || comes_over_rdma(&store, &objects));
    println!("{READS_WELL}");
    let end = Instant::now() + LONG;
    while Instant::now() < end {
        get(&store, &objects);
    }
}

#[test]
fn a_disk_is_read_over_rdma_also_after_readers_were_killed() {
    let Some(devices) = devices() else {
        return;
    };
    let (master, folder) = (Master::start(&AT_EVICTION), TempDir::new().expect("a folder"));
    let path = format!("--ssd_offload_path={}", folder.path().display());
    let more = ["--enable_offload".to_owned(), path];
    let node = start_node_with(&master, &devices[..2], "24mb", &more);
    until("the disk", || node.log().contains("The master knows what a disk has"));
    let store = open(&master, &devices[2..4]);
    for number in 0..DISK_OBJECTS {
        let object = [disk_object(number)];
        until("room for an object", || put(&store, &object) == [Status::Ok]);
    }
    let on_disk: Vec<_> = (0..DISK_OBJECTS).filter(|it| is_only_on_disk(&store, *it)).collect();
    assert!(on_disk.len() > 2 * DISK_GROUP, "{} of {DISK_OBJECTS}", on_disk.len());
    let objects: Vec<_> = on_disk[..DISK_GROUP].iter().copied().map(disk_object).collect();
    until("a read over RDMA", || comes_over_rdma(&store, &objects));
    let counted = packets(&devices[2..4])[1];
    until("another one", || comes_over_rdma(&store, &objects));
    // A packet carries 4096 bytes at most.
    let carried = (packets(&devices[2..4])[1] - counted) * 4096;
    assert!(carried >= (DISK_GROUP * DISK_OBJECT_BYTES) as u64, "{carried} bytes in packets");
    for _ in 0..KILLS {
        let mut reader = start_reader(&master, &devices[2..4], &on_disk[DISK_GROUP..]);
        reader.kill().expect("it runs");
        reader.wait().expect("it has ended");
    }
    until("a read over RDMA after kills", || comes_over_rdma(&store, &objects));
    store.close();
}
