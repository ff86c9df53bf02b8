//! Copies and moves of single objects, carried out by the nodes that hold them.
//! Invariant: a replica that a task made has the bytes that were put.

use crate::cluster::{ANY, data, get, master, on, put, store, until};
use perigee_schemas::{Identity, Status};
use perigee_store::{Store, Task, TaskKind, TaskSpec, TaskState};

const SEGMENT_BYTES: u64 = 64 << 20;
const OBJECTS: usize = 20;

fn copy_to<'a>(targets: &'a [&'a str]) -> TaskSpec<'a> {
    TaskSpec::Copy { targets }
}

fn ended(client: &Store, id: Identity) -> Task {
    until("the end of the task", || {
        let task = client.query_task(id).unwrap();
        [TaskState::Failed, TaskState::Succeeded].contains(&task.state).then_some(task)
    })
}

fn places(client: &Store, key: &str) -> Vec<String> {
    let replicas = client.replicas(&[key]).remove(0).unwrap_or_default();
    let mut places: Vec<String> = replicas.into_iter().map(|it| it.transport_endpoint).collect();
    places.sort_unstable();
    places
}

fn payload(object: usize) -> Vec<u8> {
    data(object, 1 + object * 40_001)
}

/// Copies all objects of one node to another, moves them on to a third one, and reads them without
/// the first two.
fn copy_and_move(shards: usize, shared_memory: bool) {
    let names = ["127.0.0.1:22001", "127.0.0.1:22002", "127.0.0.1:22003"];
    let cluster = master(&[&format!("--rpc_shards={shards}"), "--default_kv_lease_ttl=300"]);
    let nodes = names.map(|name| store(&cluster, name, SEGMENT_BYTES, shared_memory));
    let client = store(&cluster, ANY, 0, shared_memory);
    let keys: Vec<String> = (0..OBJECTS).map(|object| format!("object-{object}")).collect();
    for (object, key) in keys.iter().enumerate() {
        assert_eq!(put(&client, key, &payload(object), &on(names[0], false)), Status::Ok);
    }
    let all = |spec: &TaskSpec<'_>, kind: TaskKind| {
        let ids: Vec<Identity> =
            keys.iter().map(|key| client.create_task(key, spec).unwrap()).collect();
        for id in ids {
            let task = ended(&client, id);
            assert_eq!((task.kind, task.state), (kind, TaskState::Succeeded), "{task:?}");
            assert!(task.updated_ms >= task.created_ms && task.created_ms > 0);
        }
    };
    all(&copy_to(&names[1..2]), TaskKind::Copy);
    for key in &keys {
        assert_eq!(places(&client, key), names[..2], "{key}");
    }
    let onward = TaskSpec::Move { source: names[0], target: names[2] };
    all(&onward, TaskKind::Move);
    let [first, second, third] = nodes;
    for (object, key) in keys.iter().enumerate() {
        assert_eq!(places(&client, key), names[1..], "{key}");
        assert!(get(&client, key) == Ok(payload(object)));
    }
    first.close();
    second.close();
    for (object, key) in keys.iter().enumerate() {
        assert!(get(&client, key) == Ok(payload(object)), "{key} from the copy of a copy");
    }
    third.close();
    cluster.stop();
}

#[test]
fn objects_are_copied_and_moved_over_tcp() {
    copy_and_move(1, false);
}

#[test]
fn objects_are_copied_and_moved_through_shared_memory_by_a_master_of_several_shards() {
    copy_and_move(3, true);
}

#[test]
fn a_task_that_makes_no_sense_is_refused_with_its_code() {
    let cluster = master(&[]);
    let names = ["127.0.0.1:22004", "127.0.0.1:22005"];
    let _nodes = names.map(|name| store(&cluster, name, 1 << 20, true));
    let client = store(&cluster, ANY, 0, true);
    assert_eq!(put(&client, "key", &data(1, 100), &on(names[0], false)), Status::Ok);
    let refused = |key: &str, spec: &TaskSpec<'_>| client.create_task(key, spec).unwrap_err();
    let to_itself = TaskSpec::Move { source: names[0], target: names[0] };
    let from_nowhere = TaskSpec::Move { source: names[1], target: names[0] };
    for spec in [copy_to(&[]), copy_to(&["nowhere"]), to_itself, from_nowhere] {
        assert_eq!(refused("key", &spec), Status::InvalidParams, "{spec:?}");
    }
    assert_eq!(refused("nothing", &copy_to(&names[1..])), Status::ObjectNotFound);
    assert_eq!(refused("", &copy_to(&names[1..])), Status::ObjectNotFound);
    assert_eq!(client.query_task(Identity(1)), Err(Status::TaskNotFound));
    client.close();
    assert_eq!(refused("key", &copy_to(&names[1..])), Status::InvalidParams);
    cluster.stop();
}

#[test]
fn addresses_of_clients_are_those_that_their_segments_are_on() {
    let cluster = master(&["--rpc_shards=2"]);
    let name = "127.0.0.1:22009";
    let node = store(&cluster, name, SEGMENT_BYTES, true);
    let client = store(&cluster, ANY, 0, true);
    let clients = [node.client_id(), client.client_id(), Identity(1)];
    let found: Vec<_> = client.batch_query_ip(&clients).unwrap().into_iter().collect();
    assert_eq!(found, [(node.client_id(), vec!["127.0.0.1".to_owned()])]);
    assert!(client.batch_query_ip(&[]).unwrap().is_empty());
    client.close();
    assert_eq!(client.batch_query_ip(&clients), Err(Status::InvalidParams));
    cluster.stop();
}

#[test]
fn a_task_without_room_fails_and_says_so_and_too_many_tasks_are_refused() {
    let cluster = master(&["--max_retry_attempts=1", "--max_total_pending_tasks=2"]);
    let names = ["127.0.0.1:22006", "127.0.0.1:22007"];
    let _large = store(&cluster, names[0], SEGMENT_BYTES, true);
    let _small = store(&cluster, names[1], 1 << 20, true);
    let client = store(&cluster, ANY, 0, true);
    assert_eq!(put(&client, "key", &data(1, 2 << 20), &on(names[0], true)), Status::Ok);
    let spec = copy_to(&names[1..]);
    let first = client.create_task("key", &spec).unwrap();
    client.create_task("key", &spec).unwrap();
    let third = client.create_task("key", &spec);
    assert_eq!(third, Err(Status::TaskPendingLimitExceeded));
    let task = ended(&client, first);
    assert_eq!(task.state, TaskState::Failed);
    assert!(task.message.contains("NO_AVAILABLE_HANDLE"), "{task:?}");
    assert_eq!(places(&client, "key"), names[..1]);
    cluster.stop();
}

#[test]
fn only_so_many_ended_tasks_are_remembered() {
    let cluster = master(&["--max_total_finished_tasks=1"]);
    let name = "127.0.0.1:22008";
    let _node = store(&cluster, name, SEGMENT_BYTES, true);
    let client = store(&cluster, ANY, 0, true);
    assert_eq!(put(&client, "key", &data(1, 100), &on(name, false)), Status::Ok);
    let held = [name];
    let [first, second] = [(); 2].map(|()| {
        let id = client.create_task("key", &copy_to(&held)).unwrap();
        assert_eq!(ended(&client, id).state, TaskState::Succeeded);
        id
    });
    assert_eq!(client.query_task(first), Err(Status::TaskNotFound));
    assert!(client.query_task(second).is_ok());
    cluster.stop();
}
