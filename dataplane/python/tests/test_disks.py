"""Stores with disks: objects that memory has no room for, where they lie, and how they come back."""

import contextlib
import json
import urllib.parse
import urllib.request

import pytest
from conftest import START_TIMEOUT_S, Process, connect, free_ports, listens, program, wait_until

OBJECT_BYTES = 256 << 10
MEMORY_BYTES = 32 << 20
# Three times what memory holds.
OBJECTS = 384
NO_ROOM = -200
MISSING = -704
DEADLINE_S = 60


class Master:
    """A master that has objects written to disks, and its HTTP routes."""

    def __init__(self, stack, folder, *flags):
        rpc, self.http = free_ports(2)
        self.address = f"127.0.0.1:{rpc}"
        arguments = [
            program("mooncake_master"),
            "--rpc_address=127.0.0.1",
            f"--rpc_port={rpc}",
            "--metrics_host=127.0.0.1",
            f"--metrics_port={self.http}",
            "--default_kv_lease_ttl=50",
            "--enable_offload",
            "--offload_on_evict",
            # Nothing leaves memory without a copy.
            "--offload_force_evict=false",
            "--logtostderr=true",
            *flags,
        ]
        self.process = Process(arguments, folder / "master.log")
        stack.callback(self.process.stop)
        wait_until(lambda: self.process.alive() and listens(rpc), START_TIMEOUT_S, "master start")

    def get(self, path):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.http}{path}", timeout=10) as answer:
            return answer.read().decode()

    def metric(self, name):
        lines = [line for line in self.get("/metrics").splitlines() if line.startswith(name + " ")]
        return float(lines[0].split()[1])

    def places(self, key):
        answer = json.loads(self.get(f"/batch_query_keys?keys={urllib.parse.quote(key)}"))
        return answer["data"][key]


@pytest.fixture
def stack():
    with contextlib.ExitStack() as stack:
        yield stack


def lender(master, path):
    """A client that lends memory and a disk."""
    disk = {"enable_ssd_offload": True, "ssd_offload_path": str(path)}
    return connect(master.address, MEMORY_BYTES, **disk)


def value(number):
    return (number.to_bytes(4, "little") * (OBJECT_BYTES // 4))[:OBJECT_BYTES]


def key(number):
    return f"key-{number}"


def fill(client):
    """Put all objects, each as soon as there is room."""
    for number in range(OBJECTS):

        def is_put(number=number):
            code = client.put(key(number), value(number))
            assert code in (0, NO_ROOM), code
            return code == 0

        wait_until(is_put, DEADLINE_S, f"room for object {number}")


def kinds(client, number):
    replicas = client.get_replica_desc(key(number))
    return [
        (it.is_memory_replica(), it.is_disk_replica(), it.is_local_disk_replica())
        for it in replicas
    ]


MEMORY, DISK = (True, False, False), (False, False, True)


def on_disk_alone(client):
    return [number for number in range(OBJECTS) if kinds(client, number) == [DISK]]


def test_objects_that_memory_has_no_room_for_are_read_from_the_disk(stack, tmp_path):
    master = Master(stack, tmp_path)
    client = lender(master, tmp_path / "disk")
    stack.callback(client.close)
    fill(client)
    other = connect(master.address)
    stack.callback(other.close)
    for one in (client, other):
        for number in range(OBJECTS):
            assert one.get(key(number)) == value(number)
    alone = on_disk_alone(client)
    assert len(alone) > OBJECTS // 3
    for one in (client, other):
        assert one.get_offload_rpc_read_count() >= len(alone)
        before = one.get_offload_rpc_read_count()
        assert all(one.get_batch([key(number) for number in alone[:4]]))
        assert one.get_offload_rpc_read_count() == before + 1
    descriptor = client.get_replica_desc(key(alone[0]))[0]
    with pytest.raises(RuntimeError, match="not lie in memory"):
        descriptor.get_memory_descriptor()
    places = master.places(key(alone[0]))
    assert not places["values"] and len(places["local_disk_values"]) == 1
    assert places["local_disk_values"][0]["object_size"] == OBJECT_BYTES
    assert master.metric("file_cache_hit_nums_") > 0
    assert master.metric("master_total_file_capacity_bytes") > 0
    assert master.metric("master_allocated_file_size_bytes") >= len(alone) * OBJECT_BYTES


def test_a_client_that_starts_again_finds_what_its_disk_has(stack, tmp_path):
    master = Master(stack, tmp_path)
    client = lender(master, tmp_path / "disk")
    fill(client)
    alone = on_disk_alone(client)
    removed, kept = alone[: len(alone) // 2], alone[len(alone) // 2 :]
    for number in removed:
        assert client.remove(key(number), True) == 0
    assert client.close() == 0
    again = lender(master, tmp_path / "disk")
    stack.callback(again.close)
    wait_until(
        lambda: all(again.is_exist(key(number)) == 1 for number in kept), DEADLINE_S, "what it had"
    )
    for number in kept:
        assert again.get(key(number)) == value(number)
    for number in removed:
        assert again.is_exist(key(number)) == 0
        assert again.get_size(key(number)) == MISSING
    assert again.unmount_local_disk_segment() == 0
    assert all(again.is_exist(key(number)) == 0 for number in kept)


def test_a_program_saves_what_its_memory_has_before_it_closes(stack, tmp_path):
    master = Master(stack, tmp_path)
    client = lender(master, tmp_path / "disk")
    numbers = range(8)
    for number in numbers:
        assert client.put(key(number), value(number)) == 0
    for wrong in (-1, float("nan"), 3601):
        with pytest.raises(ValueError, match="from 0 to 3600"):
            client.save_to_disks(wrong)
    assert client.has_disks()
    saved = client.save_to_disks(DEADLINE_S)
    assert saved["is_all"] and saved["left"] == saved["failed"] == 0, saved
    assert saved["objects"] == len(numbers) and saved["bytes"] == len(numbers) * OBJECT_BYTES
    assert client.close() == 0
    again = lender(master, tmp_path / "disk")
    stack.callback(again.close)
    wait_until(lambda: all(again.is_exist(key(number)) == 1 for number in numbers), DEADLINE_S, "them")
    for number in numbers:
        assert again.get(key(number)) == value(number)
    diskless = connect(master.address)
    stack.callback(diskless.close)
    assert not diskless.has_disks() and diskless.save_to_disks(0) is None


def test_what_is_read_often_comes_back_to_memory_and_is_read_there(stack, tmp_path):
    master = Master(stack, tmp_path, "--promotion_on_hit", "--promotion_admission_threshold=1")
    client = lender(master, tmp_path / "disk")
    stack.callback(client.close)
    fill(client)
    alone = on_disk_alone(client)
    for number in set(range(OBJECTS)) - set(alone):
        assert client.remove(key(number), True) == 0
    hot = alone[0]
    assert client.get(key(hot)) == value(hot)
    wait_until(lambda: kinds(client, hot) == [MEMORY, DISK], DEADLINE_S, "the copy in memory")
    before = client.get_offload_rpc_read_count()
    assert client.get(key(hot)) == value(hot)
    assert client.get_offload_rpc_read_count() == before
    assert master.metric("master_promotion_completed_total") >= 1


def test_without_the_switch_of_the_master_nothing_goes_to_the_disk(stack, tmp_path):
    master = Master(stack, tmp_path, "--enable_offload=false")
    client = lender(master, tmp_path / "disk")
    stack.callback(client.close)
    fill(client)
    assert on_disk_alone(client) == []


def test_a_folder_that_cannot_be_used_costs_the_disk_and_not_the_client(stack, tmp_path):
    master = Master(stack, tmp_path)
    (tmp_path / "file").write_text("no folder")
    client = lender(master, tmp_path / "file")
    stack.callback(client.close)
    fill(client)
    assert on_disk_alone(client) == []
    assert client.get(key(OBJECTS - 1)) == value(OBJECTS - 1)
