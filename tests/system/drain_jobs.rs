//! Segments that are emptied over HTTP while clients read, nodes die, and operators change their
//! minds.
//! Invariant: an object that was moved has the bytes that were put, and what could not be moved
//! stays or is a miss.

use nix::sys::signal::Signal;
use perigee_schemas::Status;
use perigee_store::ReplicateConfig;
use perigee_tests::cluster::{Master, Node};
use perigee_tests::content::fill;
use perigee_tests::deadline::wait_until;
use perigee_tests::http::{self, Answer};
use perigee_tests::limits::MEMBERSHIP_DEADLINE;
use perigee_tests::objects::{Objects, key_name};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

const KEYS: u64 = 48;
const OBJECT_BYTES: usize = 512 << 10;
/// So many objects that something happens before all of them are moved one by one.
const MANY_KEYS: u64 = 800;
const SMALL_BYTES: usize = 16 << 10;
const POOL_BYTES: u64 = 64 << 20;
/// A job with all its leases, retries and expired clients.
const JOB_DEADLINE: Duration = Duration::from_secs(90);
const SHORT_LEASES: &str = "--default_kv_lease_ttl=2000";

/// A drain job as its operator sees it.
struct Job<'a> {
    master: &'a Master,
    id: String,
}

impl<'a> Job<'a> {
    #[track_caller]
    fn create(master: &'a Master, body: &Value) -> Self {
        let answer = post_job(master, &body.to_string());
        assert_eq!(answer.status, 200, "{}", answer.body);
        let body = parsed(&answer);
        assert_eq!((&body["success"], &body["status"]), (&json!(true), &json!("CREATED")));
        let id = body["job_id"].as_str().expect("a job has an id").to_owned();
        Self { master, id }
    }

    fn query(&self) -> Value {
        let path = format!("/api/v1/drain_jobs/query?job_id={}", self.id);
        let answer = http::get(self.master.http, &path);
        assert_eq!(answer.status, 200, "{}", answer.body);
        parsed(&answer)
    }

    fn cancel(&self) -> Answer {
        let path = format!("/api/v1/drain_jobs/cancel?job_id={}", self.id);
        http::request(self.master.http, "POST", &path).expect("the master answers")
    }

    fn number(&self, field: &str) -> u64 {
        self.query()[field].as_u64().expect("a count")
    }

    #[track_caller]
    fn wait_for(&self, status: &str) -> Value {
        wait_until(&format!("the job is {status}"), JOB_DEADLINE, || {
            let job = self.query();
            let now = job["status_name"].as_str().unwrap_or_default();
            let ended = ["SUCCEEDED", "FAILED", "CANCELED"].contains(&now);
            assert!(!ended || now == status, "{job}");
            now == status
        });
        self.query()
    }
}

fn post_job(master: &Master, body: &str) -> Answer {
    http::send(master.http, "POST", "/api/v1/drain_jobs", body).expect("the master answers")
}

fn parsed(answer: &Answer) -> Value {
    serde_json::from_str(&answer.body).expect("the answer is JSON")
}

/// Where a new object is to lie, never to be evicted if `pinned`.
fn at(node: &Node, pinned: bool) -> ReplicateConfig {
    ReplicateConfig {
        preferred_segments: vec![node.name.clone()],
        with_hard_pin: pinned,
        ..ReplicateConfig::default()
    }
}

#[track_caller]
fn put_all(objects: &Objects, keys: std::ops::Range<u64>, config: &ReplicateConfig) {
    put_sized(objects, keys, OBJECT_BYTES, config);
}

#[track_caller]
fn put_sized(
    objects: &Objects,
    keys: std::ops::Range<u64>,
    bytes: usize,
    config: &ReplicateConfig,
) {
    for key in keys {
        let mut value = vec![0; bytes];
        fill(key, 1, &mut value);
        let status = objects.put_with(&key_name(key), &value, config);
        assert_eq!(status, Status::Ok, "key {key}");
    }
}

fn segment_status(master: &Master, name: &str) -> String {
    let path = format!("/api/v1/segments/status?segment={name}");
    let body = parsed(&http::get(master.http, &path));
    body["status_name"].as_str().unwrap_or_default().to_owned()
}

fn used_bytes(master: &Master, name: &str) -> u64 {
    let segments = master.segments();
    let own = segments.iter().find(|it| it["segment_name"] == name);
    own.and_then(|it| it["allocator_used_bytes"].as_u64()).expect("a mounted segment tells its use")
}

/// Tells other threads to end, also when this one fails.
struct RaisedAtEnd<'a>(&'a AtomicBool);

impl Drop for RaisedAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Drains one of two nodes while two clients read all objects again and again, then stops it.
fn drain_under_load(flags: &[&str]) {
    let master = Master::start(flags);
    let mut leaving = Node::start(&master, POOL_BYTES);
    let staying = Node::start(&master, POOL_BYTES);
    let writer = Objects::open(&master.address());
    put_all(&writer, 0..KEYS, &at(&leaving, false));
    let (done, read) = (AtomicBool::new(false), AtomicU64::new(0));
    let readers = [Objects::open(&master.address()), Objects::open_over_tcp(&master.address())];
    std::thread::scope(|scope| {
        for reader in &readers {
            let (done, read) = (&done, &read);
            scope.spawn(move || {
                while !done.load(Ordering::Acquire) {
                    for key in 0..KEYS {
                        let got = reader.get_object(key, OBJECT_BYTES);
                        assert_eq!(got, Ok(1), "key {key} is never lost");
                        read.fetch_add(1, Ordering::AcqRel);
                    }
                }
            });
        }
        let _done = RaisedAtEnd(&done);
        drain_to_success(&master, &leaving, &staying);
        leaving.program.stop();
        // Every object is read once more by both after the node is gone.
        let enough = read.load(Ordering::Acquire) + 4 * KEYS;
        wait_until("objects are read without the node", JOB_DEADLINE, || {
            read.load(Ordering::Acquire) >= enough
        });
    });
    for key in 0..KEYS {
        assert_eq!(writer.segment_of(key).as_ref(), Some(&staying.name));
    }
}

fn drain_to_success(master: &Master, leaving: &Node, staying: &Node) {
    let wish = json!({"segments": [leaving.name], "target_segments": [staying.name]});
    let job = Job::create(master, &wish);
    let status = segment_status(master, &leaving.name);
    assert!(["DRAINING", "DRAINED"].contains(&status.as_str()), "{status}");
    let ended = job.wait_for("SUCCEEDED");
    assert_eq!(ended["succeeded_units"], KEYS);
    assert_eq!(ended["migrated_bytes"], KEYS * OBJECT_BYTES as u64);
    for field in ["failed_units", "blocked_units", "active_units"] {
        assert_eq!(ended[field], 0, "{field}");
    }
    assert_eq!(segment_status(master, &leaving.name), "DRAINED");
    assert_eq!(used_bytes(master, &leaving.name), 0);
    assert_eq!(job.cancel().status, 409, "an ended job is not canceled");
}

#[test]
fn a_node_is_drained_under_load_and_stopped_without_a_lost_object() {
    drain_under_load(&[SHORT_LEASES]);
}

#[test]
fn a_node_is_drained_by_a_master_of_several_shards() {
    drain_under_load(&[SHORT_LEASES, "--rpc_shards=3"]);
}

#[test]
fn a_drained_segment_takes_nothing_new_and_cannot_be_drained_again() {
    let master = Master::start(&[]);
    let empty = Node::start(&master, POOL_BYTES);
    let other = Node::start(&master, POOL_BYTES);
    let job = Job::create(&master, &json!({"segments": [empty.name]}));
    job.wait_for("SUCCEEDED");
    let objects = Objects::open(&master.address());
    put_all(&objects, 0..8, &at(&empty, false));
    for key in 0..8 {
        assert_eq!(objects.segment_of(key).as_ref(), Some(&other.name));
    }
    let again = post_job(&master, &json!({"segments": [empty.name]}).to_string());
    assert!(again.status == 409 && again.body.contains("-1010"), "{}", again.body);
    let target = json!({"segments": [other.name], "target_segments": [empty.name]});
    assert_eq!(post_job(&master, &target.to_string()).status, 409);
}

#[test]
fn a_job_whose_objects_find_no_room_waits_and_can_be_canceled() {
    let master = Master::start(&[]);
    let full = Node::start(&master, POOL_BYTES);
    let small = Node::start(&master, 16 << 20);
    let objects = Objects::open(&master.address());
    put_all(&objects, 0..KEYS, &at(&full, true));
    let job = Job::create(&master, &json!({"segments": [full.name], "max_concurrency": 16}));
    wait_until("the target is full and the rest waits", JOB_DEADLINE, || {
        job.number("blocked_units") > 0 && job.number("active_units") == 0
    });
    let moved = job.number("succeeded_units");
    assert!(moved > 0 && moved < KEYS, "{moved}");
    let message = job.query()["message"].to_string();
    assert!(message.contains("wait for room"), "{message}");
    wait_until("the job is canceled", JOB_DEADLINE, || job.cancel().status == 200);
    assert_eq!(job.wait_for("CANCELED")["success"], true);
    assert_eq!(segment_status(&master, &full.name), "OK");
    let again = job.cancel();
    assert!(again.status == 409 && again.body.contains("-1010"), "{}", again.body);
    put_all(&objects, KEYS..KEYS + 4, &at(&full, false));
    assert_eq!(objects.segment_of(KEYS).as_ref(), Some(&full.name));
    for key in 0..KEYS {
        assert_eq!(objects.get_object(key, OBJECT_BYTES), Ok(1));
    }
    assert!(used_bytes(&master, &small.name) > 0);
}

#[test]
fn a_job_that_moves_one_object_after_the_other_is_canceled_after_those_under_way() {
    let master = Master::start(&[]);
    let leaving = Node::start(&master, POOL_BYTES);
    let _staying = Node::start(&master, POOL_BYTES);
    let objects = Objects::open(&master.address());
    put_sized(&objects, 0..MANY_KEYS, SMALL_BYTES, &at(&leaving, true));
    let job = Job::create(&master, &json!({"segments": [leaving.name], "max_concurrency": 2}));
    wait_until("some objects are moved", JOB_DEADLINE, || job.number("succeeded_units") >= 3);
    let canceled = job.cancel();
    assert_eq!(canceled.status, 200, "{}", canceled.body);
    assert!(job.number("succeeded_units") < MANY_KEYS);
    assert_eq!(segment_status(&master, &leaving.name), "OK");
}

#[test]
fn a_job_whose_moves_do_not_end_is_not_canceled() {
    let master = Master::start(&["--client_ttl=60"]);
    let leaving = Node::start(&master, POOL_BYTES);
    let _staying = Node::start(&master, POOL_BYTES);
    let objects = Objects::open(&master.address());
    put_all(&objects, 0..4, &at(&leaving, false));
    leaving.program.signal(Signal::SIGSTOP);
    let job = Job::create(&master, &json!({"segments": [leaving.name], "max_concurrency": 2}));
    wait_until("moves are under way", JOB_DEADLINE, || job.number("active_units") == 2);
    let refused = job.cancel();
    assert!(refused.status == 409 && refused.body.contains("-1010"), "{}", refused.body);
    assert_eq!(segment_status(&master, &leaving.name), "DRAINING");
    leaving.program.signal(Signal::SIGCONT);
    job.wait_for("SUCCEEDED");
}

#[test]
fn a_node_killed_while_it_is_drained_fails_the_job_and_leaks_no_space() {
    let master = Master::start(&[SHORT_LEASES, "--put_start_release_timeout_sec=3"]);
    let mut dying = Node::start(&master, POOL_BYTES);
    let staying = Node::start(&master, POOL_BYTES);
    let objects = Objects::open_over_tcp(&master.address());
    put_sized(&objects, 0..MANY_KEYS, SMALL_BYTES, &at(&dying, false));
    let job = Job::create(&master, &json!({"segments": [dying.name], "max_concurrency": 1}));
    wait_until("some objects are moved", JOB_DEADLINE, || job.number("succeeded_units") >= 3);
    dying.program.kill();
    let failed = job.wait_for("FAILED");
    assert!(failed["message"].as_str().is_some_and(|it| it.contains("unmounted")), "{failed}");
    let mut kept = 0;
    for key in 0..MANY_KEYS {
        // Fails by itself on bytes that are not the object's own.
        kept += u64::from(objects.get_object(key, SMALL_BYTES).is_ok());
    }
    assert_eq!(kept, failed["succeeded_units"].as_u64().unwrap_or_default());
    objects.store.remove_all(true).expect("the master answers");
    wait_until("all space is free again", MEMBERSHIP_DEADLINE, || {
        used_bytes(&master, &staying.name) == 0
    });
}

#[test]
fn a_target_killed_while_it_takes_objects_is_replaced_by_another() {
    let master = Master::start(&[SHORT_LEASES]);
    let leaving = Node::start(&master, POOL_BYTES);
    let mut dying = Node::start(&master, POOL_BYTES);
    let objects = Objects::open_over_tcp(&master.address());
    put_sized(&objects, 0..MANY_KEYS, SMALL_BYTES, &at(&leaving, false));
    let job = Job::create(&master, &json!({"segments": [leaving.name], "max_concurrency": 1}));
    wait_until("some objects are moved", JOB_DEADLINE, || job.number("succeeded_units") >= 3);
    dying.program.kill();
    let staying = Node::start(&master, POOL_BYTES);
    job.wait_for("SUCCEEDED");
    assert_eq!(used_bytes(&master, &leaving.name), 0);
    for key in 0..MANY_KEYS {
        let there = objects.segment_of(key);
        if there.as_ref() == Some(&staying.name) {
            assert_eq!(objects.get_object(key, SMALL_BYTES), Ok(1));
        } else {
            assert_eq!(there, None, "key {key} went with its node");
        }
    }
}

#[test]
fn objects_removed_and_rewritten_while_they_are_moved_stay_as_their_writers_left_them() {
    let master = Master::start(&[SHORT_LEASES]);
    let leaving = Node::start(&master, POOL_BYTES);
    let _staying = Node::start(&master, POOL_BYTES);
    let objects = Objects::open(&master.address());
    put_all(&objects, 0..KEYS, &at(&leaving, false));
    let job = Job::create(&master, &json!({"segments": [leaving.name], "max_concurrency": 2}));
    for key in (0..KEYS).rev() {
        let name = key_name(key);
        match key % 3 {
            0 => {
                let removed = objects.store.remove(&[&name], true);
                assert_eq!(removed, [Status::Ok]);
            }
            1 => assert_eq!(objects.upsert_objects(&[key], 2, OBJECT_BYTES), [Status::Ok]),
            _ => {}
        }
    }
    job.wait_for("SUCCEEDED");
    assert_eq!(used_bytes(&master, &leaving.name), 0);
    for key in 0..KEYS {
        let got = objects.get_object(key, OBJECT_BYTES);
        match key % 3 {
            0 => assert_eq!(got, Err(Status::ObjectNotFound)),
            1 => assert_eq!(got, Ok(2)),
            _ => assert_eq!(got, Ok(1)),
        }
    }
}

#[test]
fn wrong_jobs_are_refused() {
    let master = Master::start(&[]);
    let node = Node::start(&master, 16 << 20);
    let own = &node.name;
    let refused = |body: &str, status: u16, code: i32| {
        let answer = post_job(&master, body);
        let error = parsed(&answer)["error_code"].clone();
        assert_eq!((answer.status, error), (status, json!(code)), "{body}: {}", answer.body);
    };
    refused("not json", 400, -600);
    refused("[]", 400, -600);
    refused("{}", 400, -600);
    refused(r#"{"segments":[]}"#, 400, -600);
    refused(r#"{"segments":["nowhere:1"]}"#, 404, -101);
    for wrong in [json!(0), json!(-1), json!(1.5), json!("4"), json!(1_000_000)] {
        let body = json!({"segments": [own], "max_concurrency": wrong});
        refused(&body.to_string(), 400, -600);
    }
    let itself = json!({"segments": [own], "target_segments": [own]});
    refused(&itself.to_string(), 400, -600);
    let nowhere = json!({"segments": [own], "target_segments": ["nowhere:1"]});
    refused(&nowhere.to_string(), 404, -101);
    assert_eq!(segment_status(&master, own), "OK", "a refused job changes nothing");
    for (method, path) in [("GET", "query"), ("POST", "cancel")] {
        let path = format!("/api/v1/drain_jobs/{path}?job_id=1-2");
        let unknown = http::request(master.http, method, &path).expect("the master answers");
        assert!(unknown.status == 404 && unknown.body.contains("-1402"));
    }
}
