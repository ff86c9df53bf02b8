//! `perigee drain`, the preStop hook of a pod. Invariant: success means that every object was
//! moved.

use nix::sys::signal::Signal;
use perigee_schemas::Status;
use perigee_store::ReplicateConfig;
use perigee_tests::cluster::{Master, Node};
use perigee_tests::content::fill;
use perigee_tests::deadline::wait_until;
use perigee_tests::limits::{CALL_DEADLINE, MEMBERSHIP_DEADLINE};
use perigee_tests::objects::{Objects, key_name};
use perigee_tests::program::{Ended, Program};
use std::time::Duration;

const KEYS: u64 = 16;
const OBJECT_BYTES: usize = 256 << 10;
const POOL_BYTES: u64 = 64 << 20;
const SHORT_LEASES: &str = "--default_kv_lease_ttl=1000";
/// How long a master is away.
const AWAY: Duration = Duration::from_secs(2);
/// Exit codes of the help text.
const REFUSED: i32 = 64;
const NO_ANSWER: i32 = 69;
const TRY_LATER: i32 = 75;

fn words(master: &Master, flags: &[&str]) -> Vec<String> {
    let mut words = vec![
        "drain".to_owned(),
        format!("--master={}", master.rpc),
        format!("--metrics_port={}", master.http.port()),
    ];
    words.extend(flags.iter().map(|flag| (*flag).to_owned()));
    words
}

fn drain(master: &Master, flags: &[&str]) -> Ended {
    Program::run("perigee", &words(master, flags))
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
    assert!(ended.output.contains("No other node has room"), "{}", ended.output);
    assert!(ended.output.contains("takes objects again"), "{}", ended.output);
    assert_eq!(objects.get_object(0, OBJECT_BYTES), Ok(1));
    assert_eq!(objects.put_object(KEYS, 1, OBJECT_BYTES), Status::Ok, "the job is canceled");
}

#[test]
fn an_owner_that_ends_all_the_same_leaves_its_job_and_gets_no_puts() {
    let master = Master::start(&[SHORT_LEASES]);
    let only = Node::start(&master, POOL_BYTES);
    let objects = Objects::open(&master.address());
    put_all(&objects, &only);
    let ended = drain(&master, &["--timeout=2s", "--cancel=false"]);
    assert_eq!(ended.code, Some(TRY_LATER), "{}", ended.output);
    assert!(ended.output.contains("the job goes on: curl"), "{}", ended.output);
    assert_eq!(objects.get_object(0, OBJECT_BYTES), Ok(1));
    assert_eq!(objects.put_object(KEYS, 1, OBJECT_BYTES), Status::NoAvailableHandle);
}

#[test]
fn a_misspelt_name_is_said_at_once_beside_the_segments_that_are_there() {
    let master = Master::start(&[]);
    let node = Node::start(&master, POOL_BYTES);
    let misspelt = node.name.replacen(':', ";", 1);
    for quick in ["--quick=false", "--quick"] {
        let flags: [&str; 3] = [&format!("--segment={misspelt}"), "--timeout=60s", quick];
        let mut program = Program::start("perigee", &words(&master, &flags));
        let said = format!("does not know {misspelt}, only {}", node.name);
        wait_until("the command says what it waits for", CALL_DEADLINE, || {
            program.log().contains(&said)
        });
        assert!(program.is_running(), "it goes on waiting: {}", program.log());
        let [segment, _, quick] = flags;
        let ended = drain(&master, &[segment, "--timeout=1s", quick]);
        assert_eq!(ended.code, Some(REFUSED), "{}", ended.output);
        assert_eq!(ended.output.matches(&said).count(), 2, "{}", ended.output);
    }
}

#[test]
fn a_drained_segment_is_drained_again_at_once_and_puts_without_room_name_it() {
    let master = Master::start(&[SHORT_LEASES]);
    let only = Node::start(&master, POOL_BYTES);
    let segment = format!("--segment={}", only.name);
    for _ in 0..2 {
        let ended = drain(&master, &[&segment]);
        assert_eq!(ended.code, Some(0), "{}", ended.output);
    }
    let objects = Objects::open(&master.address());
    assert_eq!(objects.put_object(0, 1, OBJECT_BYTES), Status::NoAvailableHandle);
    wait_until("the log says why", CALL_DEADLINE, || {
        let log = master.program.log();
        log.lines().any(|line| line.contains("No room for puts") && line.contains(&only.name))
    });
}

/// Starts the master again while nodes stand still; a drain that is begun then ends after they go
/// on.
fn drain_after_a_restart(master: &mut Master, nodes: &[&Node], flags: &[&str]) -> Ended {
    nodes.iter().for_each(|node| node.program.signal(Signal::SIGSTOP));
    master.program.kill();
    master.start_again();
    let mut program = Program::start("perigee", &words(master, flags));
    wait_until("the drain has asked, or has ended", CALL_DEADLINE, || {
        !program.is_running() || master.metric("perigee_uptime_seconds") > Some(2.0)
    });
    nodes.iter().for_each(|node| node.program.signal(Signal::SIGCONT));
    let status = program.wait(MEMBERSHIP_DEADLINE).expect("the drain ends");
    Ended { code: status.code(), signal: None, output: program.log() }
}

#[test]
fn a_named_segment_that_a_restarted_master_does_not_know_yet_is_waited_for() {
    for quick in ["--quick=false", "--quick"] {
        let mut master = Master::start(&[SHORT_LEASES]);
        let leaving = Node::start(&master, POOL_BYTES);
        let staying = Node::start(&master, POOL_BYTES);
        let objects = Objects::open(&master.address());
        put_all(&objects, &leaving);
        let segment = format!("--segment={}", leaving.name);
        let ended = drain_after_a_restart(&mut master, &[&leaving, &staying], &[&segment, quick]);
        assert_eq!(ended.code, Some(0), "{quick}: {}", ended.output);
        let moved = format!("{KEYS} objects moved");
        assert!(ended.output.contains(&moved), "{quick}: {}", ended.output);
    }
}

#[test]
fn a_host_whose_node_a_restarted_master_does_not_know_yet_has_something_to_drain() {
    let mut master = Master::start(&[SHORT_LEASES]);
    let only = Node::start(&master, POOL_BYTES);
    let ended = drain_after_a_restart(&mut master, &[&only], &[]);
    assert_eq!(ended.code, Some(0), "{}", ended.output);
    assert!(ended.output.contains(&format!("Drained {}", only.name)), "{}", ended.output);
}

#[test]
fn a_master_that_is_away_is_asked_again_for_the_segments_of_this_host() {
    let mut master = Master::start(&[SHORT_LEASES]);
    let only = Node::start(&master, POOL_BYTES);
    master.program.kill();
    let mut program = Program::start("perigee", &words(&master, &["--timeout=60s"]));
    assert_eq!(program.wait(AWAY), None, "{}", program.log());
    master.start_again();
    let status = program.wait(MEMBERSHIP_DEADLINE).expect("the drain ends");
    assert_eq!(status.code(), Some(0), "{}", program.log());
    assert!(program.log().contains(&format!("Drained {}", only.name)), "{}", program.log());
}

#[test]
fn a_master_that_does_not_answer_or_refuses_is_named() {
    let master = Master::start(&[]);
    let unknown = drain(&master, &["--segment=no-such-segment:1", "--timeout=1s"]);
    assert_eq!(unknown.code, Some(REFUSED), "{}", unknown.output);
    assert!(unknown.output.contains("does not know no-such-segment:1"), "{}", unknown.output);
    // It asks again until its time is over.
    let silent =
        ["drain", "--master=127.0.0.1:1", "--segment=a:1", "--metrics_port=1", "--timeout=2s"];
    let ended = Program::run("perigee", &silent);
    assert_eq!(ended.code, Some(NO_ANSWER), "{}", ended.output);
    assert!(ended.output.contains("--metrics_port"), "{}", ended.output);
}

#[test]
fn a_name_that_does_not_resolve_is_a_master_out_of_reach_and_no_wrong_argument() {
    let nowhere = "--master=no-such-host.invalid:50051";
    for words in [["drain", nowhere, "--timeout=1s"], ["status", nowhere, "--timeout=5s"]] {
        let ended = Program::run("perigee", &words);
        assert_eq!(ended.code, Some(NO_ANSWER), "{words:?}: {}", ended.output);
        assert!(ended.output.contains("cannot be reached"), "{words:?}: {}", ended.output);
    }
    for malformed in ["no-such-host.invalid", "host:port"] {
        let ended = Program::run("perigee", &["status", &format!("--master={malformed}")]);
        assert_eq!(ended.code, Some(REFUSED), "{}", ended.output);
        assert!(ended.output.contains("write host:port"), "{}", ended.output);
    }
}
