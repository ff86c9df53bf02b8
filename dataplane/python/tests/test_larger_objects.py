"""Objects larger than any segment, through every kind of call, against a cluster of small ones."""

import contextlib
import ctypes
import sys

import pytest
from conftest import START_TIMEOUT_S, Process, connect, free_ports, listens, program, wait_until
from test_objects import memory, pattern

from mooncake.store import MooncakeDistributedStore, ReplicateConfig

try:
    import torch
except ImportError:
    pytest.importorskip("numpy", reason="neither torch nor numpy is installed")
    import torch_stand_in as torch

pytestmark = pytest.mark.cluster

SEGMENT_BYTES = 16 << 20
SEGMENTS = 5
# More than two segments hold, and less than half of all.
SIZE = (36 << 20) + 12_345


@pytest.fixture(scope="module")
def small_segments(tmp_path_factory):
    """Address of a master, and a node's port, of a cluster whose segments are small."""
    logs = tmp_path_factory.mktemp("small")
    rpc, metrics, *nodes = free_ports(2 + SEGMENTS)
    address = f"127.0.0.1:{rpc}"
    arguments = [
        program("mooncake_master"),
        "--rpc_address=127.0.0.1",
        f"--rpc_port={rpc}",
        "--metrics_host=127.0.0.1",
        f"--metrics_port={metrics}",
        "--default_kv_lease_ttl=50",
        "--logtostderr=true",
    ]
    with contextlib.ExitStack() as stack:
        master = Process(arguments, logs / "master.log")
        stack.callback(master.stop)
        wait_until(lambda: master.alive() and listens(rpc), START_TIMEOUT_S, "master start")
        for port in nodes:
            node = Process(
                [
                    program("mooncake_client"),
                    "--host=127.0.0.1",
                    f"--port={port}",
                    f"--global_segment_size={SEGMENT_BYTES}",
                    f"--master_server_address={address}",
                    "--metadata_server=P2PHANDSHAKE",
                    "--protocol=tcp",
                ],
                logs / f"node-{port}.log",
            )
            stack.callback(node.stop)
            wait_until(lambda p=port: listens(p), START_TIMEOUT_S, "node start")
        probe = connect(address)
        wait_until(lambda: fills_all(probe), START_TIMEOUT_S, "all segments")
        assert probe.close() == 0
        yield address, nodes[0]


def fills_all(store):
    """Whether an object of almost all memory can be put."""
    code = store.put("probe", bytes(SEGMENT_BYTES * SEGMENTS * 9 // 10))
    store.remove_all(True)
    return code == 0


@pytest.fixture
def roomy(small_segments):
    client = connect(small_segments[0], local_buffer_bytes=64 << 20)
    client.remove_all(True)
    yield client
    client.remove_all(True)
    assert client.close() == 0


def test_every_get_returns_what_every_put_was_given(roomy):
    value = pattern(SIZE, 1)
    block, address, size = memory(value)
    half = size // 3

    def from_pieces():
        addresses, sizes = [[address, address + half]], [[half, size - half]]
        return roomy.batch_put_from_multi_buffers(["k"], addresses, sizes)[0]

    puts = {
        "put": lambda: roomy.put("k", value),
        "put_parts": lambda: roomy.put_parts("k", value[:half], value[half:]),
        "put_batch": lambda: roomy.put_batch(["k"], [value]),
        "put_from": lambda: roomy.put_from("k", address, size),
        "batch_put_from": lambda: roomy.batch_put_from(["k"], [address], [size])[0],
        "batch_put_from_multi_buffers": from_pieces,
        "upsert": lambda: roomy.upsert("k", value),
        "upsert_from": lambda: roomy.upsert_from("k", address, size),
    }
    for name, put in puts.items():
        assert put() == 0, name
        assert roomy.is_exist("k") == 1
        assert roomy.get_size("k") == SIZE
        assert roomy.get("k") == value, name
        wait_until(lambda: roomy.remove("k") == 0, START_TIMEOUT_S, "end of the lease")
    assert roomy.put("k", value) == 0
    target = (ctypes.c_ubyte * SIZE)()
    into = ctypes.addressof(target)
    assert roomy.get_into("k", into, SIZE) == SIZE
    assert bytes(target) == value
    ctypes.memset(into, 0, SIZE)
    assert roomy.batch_get_into(["k"], [into], [SIZE]) == [SIZE]
    assert bytes(target) == value
    assert bytes(roomy.get_buffer("k")) == value
    assert roomy.get_batch(["k", "none"]) == [value, b""]
    ctypes.memset(into, 0, SIZE)
    first, count = SIZE // 4, SIZE // 2
    read = roomy.get_into_ranges([into], [["k"]], [[[7]]], [[[first]]], [[[count]]])
    assert read == [[[count]]]
    assert bytes(target)[7 : 7 + count] == value[first : first + count]
    del block


def test_an_upsert_replaces_all_parts(roomy):
    assert roomy.put("k", pattern(SIZE, 2)) == 0
    assert roomy.upsert("k", pattern(SIZE - 999, 3)) == 0
    assert roomy.get("k") == pattern(SIZE - 999, 3)
    assert roomy.upsert("k", b"small") == 0
    assert roomy.get("k") == b"small"


def test_tensors_may_be_larger_than_any_segment(roomy, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", torch)
    tensor = torch.arange(SIZE // 8, dtype=torch.int64)
    assert roomy.put_tensor("t", tensor) == 0
    assert torch.equal(roomy.get_tensor("t"), tensor)


def test_a_dummy_client_puts_and_gets_them(small_segments):
    dummy = MooncakeDistributedStore()
    assert dummy.setup_dummy(1 << 20, 64 << 20, f"127.0.0.1:{small_segments[1]}") == 0
    value = pattern(SIZE, 5)
    assert dummy.put("dummy", value) == 0
    assert dummy.get("dummy") == value
    assert dummy.remove("dummy", True) == 0
    assert dummy.close() == 0


def test_what_no_memory_holds_is_refused_and_leaves_nothing(roomy):
    too_large = bytes(SEGMENT_BYTES * SEGMENTS)
    assert roomy.put("k", too_large) == -200
    assert roomy.is_exist("k") == 0
    config = ReplicateConfig()
    config.replica_num = 2
    assert roomy.put("twice", pattern(SIZE, 6), config) == 0
    assert roomy.get("twice") == pattern(SIZE, 6)
