//! Copies and moves of single objects while clients read, owners freeze and die, and masters
//! restart.
//! Invariant: a task ends, and what it copied has the bytes that were put.

use nix::sys::signal::Signal;
use perigee_schemas::{Identity, Status};
use perigee_store::{ReplicateConfig, Store, Task, TaskSpec, TaskState};
use perigee_tests::cluster::{Master, Node};
use perigee_tests::content::fill;
use perigee_tests::deadline::wait_until;
use perigee_tests::limits::MEMBERSHIP_DEADLINE;
use perigee_tests::objects::{Objects, key_name};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const KEYS: u64 = 32;
const OBJECT_BYTES: usize = 512 << 10;
const POOL_BYTES: u64 = 64 << 20;
/// A task with all its tries and expired clients.
const TASK_DEADLINE: Duration = Duration::from_secs(90);
const SHORT_LEASES: &str = "--default_kv_lease_ttl=2000";

#[track_caller]
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

fn places(objects: &Objects, key: u64) -> Vec<String> {
    let replicas = objects.store.replicas(&[&key_name(key)]).remove(0);
    let replicas = replicas.unwrap_or_default().into_iter();
    replicas.map(|replica| replica.transport_endpoint).collect()
}

#[track_caller]
fn ask_for_all(store: &Store, spec: &TaskSpec<'_>) -> Vec<Identity> {
    let ask = |key| store.create_task(&key_name(key), spec);
    let asked: Result<Vec<Identity>, Status> = (0..KEYS).map(ask).collect();
    asked.expect("the master accepts the tasks")
}

#[track_caller]
fn ended(store: &Store, id: Identity) -> Task {
    let mut ended = None;
    wait_until("the task ends", TASK_DEADLINE, || {
        let task = store.query_task(id).expect("the master knows the task");
        let is_ended = matches!(task.state, TaskState::Failed | TaskState::Succeeded);
        ended = is_ended.then_some(task);
        is_ended
    });
    ended.expect("the wait is over")
}

/// Tells other threads to end, also when this one fails.
struct RaisedAtEnd<'a>(&'a AtomicBool);

impl Drop for RaisedAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Every object is copied to a second node and its first replica moved to a third, while a client
/// reads all of them; then the first two nodes are killed.
fn copy_and_move_under_load(flags: &[&str]) {
    let master = Master::start(flags);
    let mut nodes = [(); 3].map(|()| Node::start(&master, POOL_BYTES));
    let [first, second, third] = nodes.each_ref().map(|node| node.name.clone());
    let objects = Objects::open(&master.address());
    put_all(&objects, &nodes[0]);
    let reader = Objects::open_over_tcp(&master.address());
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Acquire) {
                for key in 0..KEYS {
                    assert_eq!(reader.get_object(key, OBJECT_BYTES), Ok(1), "key {key}");
                }
            }
        });
        let _done = RaisedAtEnd(&done);
        let targets = [second.as_str()];
        let copies = ask_for_all(&objects.store, &TaskSpec::Copy { targets: &targets });
        for id in copies {
            let task = ended(&objects.store, id);
            assert_eq!(task.state, TaskState::Succeeded, "{task:?}");
        }
        let onward = TaskSpec::Move { source: &first, target: &third };
        for id in ask_for_all(&objects.store, &onward) {
            let task = ended(&objects.store, id);
            assert_eq!(task.state, TaskState::Succeeded, "{task:?}");
        }
    });
    for key in 0..KEYS {
        let mut places = places(&objects, key);
        places.sort_unstable();
        let mut wanted = [second.clone(), third.clone()];
        wanted.sort_unstable();
        assert_eq!(places, wanted, "key {key}");
    }
    for node in &mut nodes[..2] {
        node.program.kill();
    }
    for key in 0..KEYS {
        assert_eq!(objects.get_object(key, OBJECT_BYTES), Ok(1), "key {key}");
    }
    let counted = |what: &str| master.metric(&format!("master_{what}_requests_total"));
    assert_eq!(counted("create_copy_task"), Some(KEYS as f64));
    assert_eq!(counted("create_move_task"), Some(KEYS as f64));
    assert!(counted("query_task") >= Some(2.0 * KEYS as f64));
}

#[test]
fn copies_and_moves_under_load_lose_no_object() {
    copy_and_move_under_load(&[SHORT_LEASES]);
}

#[test]
fn copies_and_moves_by_a_master_of_several_shards_lose_no_object() {
    copy_and_move_under_load(&[SHORT_LEASES, "--rpc_shards=3"]);
}

#[test]
fn a_task_whose_owner_is_frozen_waits_and_goes_on_with_it() {
    let master = Master::start(&["--client_ttl=60"]);
    let source = Node::start(&master, POOL_BYTES);
    let target = Node::start(&master, POOL_BYTES);
    let objects = Objects::open(&master.address());
    put_all(&objects, &source);
    source.program.signal(Signal::SIGSTOP);
    let targets = [target.name.as_str()];
    let spec = TaskSpec::Copy { targets: &targets };
    let id = objects.store.create_task(&key_name(0), &spec);
    let id = id.expect("the master accepts the task");
    let task = objects.store.query_task(id).expect("the task is known");
    assert_eq!(task.state, TaskState::Pending);
    source.program.signal(Signal::SIGCONT);
    assert_eq!(ended(&objects.store, id).state, TaskState::Succeeded);
    assert_eq!(places(&objects, 0).len(), 2);
}

#[test]
fn a_task_without_a_taker_fails_in_time_and_leaks_no_space() {
    let master = Master::start(&["--client_ttl=60", "--pending_task_timeout_sec=1"]);
    let source = Node::start(&master, POOL_BYTES);
    let target = Node::start(&master, POOL_BYTES);
    let objects = Objects::open(&master.address());
    put_all(&objects, &source);
    source.program.signal(Signal::SIGSTOP);
    let targets = [target.name.as_str()];
    for id in ask_for_all(&objects.store, &TaskSpec::Copy { targets: &targets }) {
        let task = ended(&objects.store, id);
        assert_eq!(task.state, TaskState::Failed);
        assert!(task.message.contains("RPC_TIMEOUT"), "{task:?}");
    }
    let used = || {
        let segments = master.segments();
        let own = segments.iter().find(|it| it["segment_name"] == target.name.as_str());
        own.and_then(|it| it["allocator_used_bytes"].as_u64())
    };
    wait_until("the copies' places are free", MEMBERSHIP_DEADLINE, || used() == Some(0));
    source.program.signal(Signal::SIGCONT);
    assert_eq!(objects.get_object(0, OBJECT_BYTES), Ok(1));
}

#[test]
fn a_task_whose_source_is_killed_fails_and_other_replicas_stay() {
    let master = Master::start(&["--replica_repair=false"]);
    let mut source = Node::start(&master, POOL_BYTES);
    let other = Node::start(&master, POOL_BYTES);
    let target = Node::start(&master, POOL_BYTES);
    let objects = Objects::open(&master.address());
    put_all(&objects, &source);
    let others = [other.name.as_str()];
    for id in ask_for_all(&objects.store, &TaskSpec::Copy { targets: &others }) {
        assert_eq!(ended(&objects.store, id).state, TaskState::Succeeded);
    }
    source.program.kill();
    let onward = TaskSpec::Move { source: &source.name, target: &target.name };
    for id in ask_for_all(&objects.store, &onward) {
        let task = ended(&objects.store, id);
        assert_eq!(task.state, TaskState::Failed);
        assert!(task.message.contains("REPLICA_NOT_FOUND"), "{task:?}");
    }
    for key in 0..KEYS {
        assert_eq!(places(&objects, key), [other.name.as_str()]);
        assert_eq!(objects.get_object(key, OBJECT_BYTES), Ok(1));
    }
}

#[test]
fn a_restarted_master_knows_no_tasks_of_its_earlier_life() {
    let mut master = Master::start(&[]);
    let node = Node::start(&master, POOL_BYTES);
    let objects = Objects::open(&master.address());
    put_all(&objects, &node);
    let held = [node.name.as_str()];
    let id = objects.store.create_task(&key_name(0), &TaskSpec::Copy { targets: &held });
    let id = id.expect("the master accepts the task");
    assert_eq!(ended(&objects.store, id).state, TaskState::Succeeded);
    master.program.kill();
    master.start_again();
    wait_until("the master answers the client", MEMBERSHIP_DEADLINE, || {
        objects.store.query_task(id) == Err(Status::TaskNotFound)
    });
}
