"""Copies and moves of objects between segments, asked for and asked about from Python."""

import time

import pytest
from conftest import free_ports, wait_until

from mooncake.store import (
    MooncakeDistributedStore,
    QueryTaskResponse,
    ReplicateConfig,
    TaskStatus,
    TaskType,
)

pytestmark = pytest.mark.cluster

VALUE = bytes(range(256)) * 2000
TASK_TIMEOUT_S = 60


def lend(master_address, name):
    """A client called `name` that lends memory."""
    store = MooncakeDistributedStore()
    arguments = (name, "P2PHANDSHAKE", 64 << 20, 16 << 20, "tcp", "", master_address)
    assert store.setup(*arguments) == 0
    return store


@pytest.fixture
def segments(master_address):
    """Names of two segments that live as long as the test."""
    names = [f"127.0.0.1:{port}" for port in free_ports(2)]
    stores = [lend(master_address, name) for name in names]
    yield names
    for store in stores:
        store.close()


def put_on(store, key, segment):
    config = ReplicateConfig()
    config.preferred_segments = [segment]
    assert store.put(key, VALUE, config) == 0


def places(store, key):
    replicas = store.get_replica_desc(key)
    descriptors = [it.get_memory_descriptor().buffer_descriptor for it in replicas]
    return sorted(it.transport_endpoint for it in descriptors)


def ended(store, task_id):
    """Wait for the end of a task; return the last answer."""
    answers = []

    def has_ended():
        task, code = store.query_task(task_id)
        assert code == 0
        answers.append(task)
        return task.status in (TaskStatus.SUCCESS, TaskStatus.FAILED)

    wait_until(has_ended, TASK_TIMEOUT_S, "the end of the task")
    return answers[-1]


def test_an_object_is_copied_then_moved(store, segments):
    first, second = segments
    put_on(store, "copied", first)
    before_ms = int(time.time() * 1000)
    task_id, code = store.create_copy_task("copied", [second])
    assert code == 0 and all(isinstance(half, int) for half in task_id)
    task = ended(store, task_id)
    assert (task.id, task.type, task.status) == (
        task_id,
        TaskType.REPLICA_COPY,
        TaskStatus.SUCCESS,
    )
    assert before_ms <= task.created_at_ms_epoch <= task.last_updated_at_ms_epoch
    assert task.message == "Task completed successfully" and task.assigned_client != (0, 0)
    assert places(store, "copied") == sorted(segments)

    task_id, code = store.create_move_task("copied", first, second)
    assert code == 0
    task = ended(store, list(task_id))
    assert (task.type, task.status) == (TaskType.REPLICA_MOVE, TaskStatus.SUCCESS)
    assert places(store, "copied") == [second]
    assert store.get("copied") == VALUE


@pytest.mark.parametrize(
    ("key", "targets", "code"),
    [
        ("no such key", ["second"], -704),
        ("", ["second"], -704),
        ("held", [], -600),
        ("held", ["no such segment"], -600),
        ("held", ["second", "no such segment"], -600),
        ("held", [""], -600),
    ],
)
def test_a_copy_without_sense_is_refused_as_mooncake_refuses_it(
    store, segments, key, targets, code
):
    put_on(store, "held", segments[0])
    named = [segments[1] if target == "second" else target for target in targets]
    assert store.create_copy_task(key, named) == ((0, 0), code)


def test_a_move_without_sense_is_refused_as_mooncake_refuses_it(store, segments):
    first, second = segments
    put_on(store, "held", first)
    for key, source, target, code in [
        ("no such key", first, second, -704),
        ("held", "no such segment", second, -600),
        ("held", first, "no such segment", -600),
        ("held", first, first, -600),
        ("held", second, first, -600),
        ("held", "", second, -600),
    ]:
        assert store.create_move_task(key, source, target) == ((0, 0), code), (key, source, target)


def test_a_task_that_was_never_created_is_not_known(store):
    assert store.query_task((1, 2)) == (None, -1400)
    assert store.query_task((0, 0)) == (None, -1400)
    assert store.query_task([2**64 - 1, 0]) == (None, -1400)


def test_an_answer_is_read_only_and_shows_as_clients_know_it():
    empty = QueryTaskResponse()
    assert repr(empty) == (
        "QueryTaskResponse(id=0-0, type=0, status=0, created_at=0, last_updated_at=0, "
        'assigned_client=0-0, message="")'
    )
    with pytest.raises(AttributeError):
        empty.message = "other"
