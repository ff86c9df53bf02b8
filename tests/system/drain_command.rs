//! `perigee drain`, the preStop hook of a pod. Invariant: success means that every object was
//! moved.

use perigee_schemas::Status;
use perigee_store::ReplicateConfig;
use perigee_tests::cluster::{Master, Node};
use perigee_tests::content::fill;
use perigee_tests::objects::{Objects, key_name};
use perigee_tests::program::{Ended, Program};

const KEYS: u64 = 16;
const OBJECT_BYTES: usize = 256 << 10;
const POOL_BYTES: u64 = 64 << 20;
const SHORT_LEASES: &str = "--default_kv_lease_ttl=1000";
/// Exit codes of the help text.
const REFUSED: i32 = 64;
const NO_ANSWER: i32 = 69;
const TRY_LATER: i32 = 75;

fn drain(master: &Master, flags: &[&str]) -> Ended {
    let mut words = vec![
        "drain".to_owned(),
        format!("--master={}", master.rpc),
        format!("--metrics_port={}", master.http.port()),
    ];
    words.extend(flags.iter().map(|flag| (*flag).to_owned()));
    Program::run("perigee", &words)
}

fn put_all(objects: &Objects, node: &Node) {
    let config = ReplicateConfig {
        preferred_segments: vec![node.name.clone()],
        ..ReplicateConfig::default()
    };
    for key in 0..KEYS {
        let mut value = vec![0; OBJECT_BYTES];
        fill(key, 1, &mut value);
        let status = objects.put_with(&key_name(key), &value, &config);
        assert_eq!(status, Status::Ok, "key {key}");
    }
}

#[test]
fn what_a_node_holds_is_elsewhere_when_the_command_ends() {
    let master = Master::start(&[SHORT_LEASES]);
    let mut leaving = Node::start(&master, POOL_BYTES);
    let staying = Node::start(&master, POOL_BYTES);
    let objects = Objects::open(&master.address());
    put_all(&objects, &leaving);
    let ended = drain(&master, &[&format!("--segment={}", leaving.name)]);
    assert_eq!(ended.code, Some(0), "{}", ended.output);
    let moved = format!("{KEYS} objects moved ({} bytes)", KEYS * OBJECT_BYTES as u64);
    assert!(ended.output.contains(&moved), "{}", ended.output);
    leaving.program.stop();
    for key in 0..KEYS {
        assert_eq!(objects.get_object(key, OBJECT_BYTES), Ok(1), "key {key}");
        assert_eq!(objects.segment_of(key).as_ref(), Some(&staying.name));
    }
}

#[test]
fn without_a_name_the_one_client_of_this_host_is_meant() {
    let master = Master::start(&[SHORT_LEASES]);
    let nothing = drain(&master, &[]);
    assert_eq!(nothing.code, Some(0), "{}", nothing.output);
    assert!(nothing.output.contains("Nothing to drain"), "{}", nothing.output);
    let first = Node::start(&master, POOL_BYTES);
    let alone = drain(&master, &[]);
    assert_eq!(alone.code, Some(0), "an empty segment drains: {}", alone.output);
    assert!(alone.output.contains(&first.name), "{}", alone.output);
    let again = drain(&master, &[]);
    assert!(again.output.contains("Nothing to drain"), "{}", again.output);
    let others = [Node::start(&master, POOL_BYTES), Node::start(&master, POOL_BYTES)];
    let ambiguous = drain(&master, &[]);
    assert_eq!(ambiguous.code, Some(REFUSED), "{}", ambiguous.output);
    for node in &others {
        assert!(ambiguous.output.contains(&node.name), "{}", ambiguous.output);
    }
}

#[test]
fn what_has_nowhere_to_go_is_no_success_and_stays_readable() {
    let master = Master::start(&[SHORT_LEASES]);
    let only = Node::start(&master, POOL_BYTES);
    let objects = Objects::open(&master.address());
    put_all(&objects, &only);
    let ended = drain(&master, &["--timeout=3s"]);
    assert_eq!(ended.code, Some(TRY_LATER), "{}", ended.output);
    assert_eq!(objects.get_object(0, OBJECT_BYTES), Ok(1));
}

#[test]
fn a_master_that_does_not_answer_or_refuses_is_named() {
    let master = Master::start(&[]);
    let unknown = drain(&master, &["--segment=no-such-segment:1"]);
    assert_eq!(unknown.code, Some(REFUSED), "{}", unknown.output);
    // It asks again until its time is over.
    let silent =
        ["drain", "--master=127.0.0.1:1", "--segment=a:1", "--metrics_port=1", "--timeout=2s"];
    let ended = Program::run("perigee", &silent);
    assert_eq!(ended.code, Some(NO_ANSWER), "{}", ended.output);
    assert!(ended.output.contains("--metrics_port"), "{}", ended.output);
}
