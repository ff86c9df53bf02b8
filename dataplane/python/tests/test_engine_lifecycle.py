"""Engines in processes that fork and end, with stores, and with a metadata server."""

import subprocess
import sys

import pytest
from conftest import START_TIMEOUT_S, Process, connect, free_ports, listens, program, wait_until
from engine_peer import HOST, PART_BYTES, PEER_TO_PEER, Memory, Peer, pattern

from mooncake.engine import TransferEngine

CHILD_TIMEOUT_S = 60
START = """
import ctypes, os, sys, threading
from mooncake.engine import TransferEngine
session, address, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
engine = TransferEngine()
assert engine.initialize("127.0.0.1", "P2PHANDSHAKE", "tcp", "") == 0
memory = ctypes.create_string_buffer(b"x" * count, count)
local = ctypes.addressof(memory)
assert engine.register_memory(local, count) == 0
"""
BATCHES_IN_FLIGHT = """
for _ in range(64):
    assert engine.transfer_submit_write(session, local, address, count)
print("submitted")
"""
CALLS_THAT_WAIT = """
entered = threading.Barrier(5)
def write():
    entered.wait()
    engine.transfer_sync_write(session, local, address, count)
for _ in range(4):
    threading.Thread(target=write, daemon=True).start()
entered.wait()
print("waiting")
"""
FORK = """
assert engine.transfer_sync_write(session, local, address, count) == 0
child = os.fork()
if child == 0:
    codes = [engine.transfer_sync_write(session, local, address, 1), engine.get_rpc_port()]
    other = TransferEngine()
    codes.append(other.initialize("127.0.0.1", "P2PHANDSHAKE", "tcp", ""))
    codes.append(other.transfer_sync_write(session, local, address, count))
    del engine
    sys.exit(0 if codes == [-1, -1, 0, 0] else 3)
status = os.waitpid(child, 0)[1]
assert os.waitstatus_to_exitcode(status) == 0, status
assert engine.transfer_sync_write(session, local, address, count) == 0
print("forked")
"""


@pytest.fixture
def peer(tmp_path):
    running = Peer(tmp_path / "peer.log")
    yield running
    running.stop()


def run(code, peer, **options):
    arguments = [peer.session, str(peer.address), str(PART_BYTES)]
    return subprocess.run(
        [sys.executable, "-P", "-c", START + code, *arguments],
        capture_output=True,
        text=True,
        timeout=CHILD_TIMEOUT_S,
        **options,
    )


def test_process_ends_cleanly_with_batches_in_flight(peer):
    child = run(BATCHES_IN_FLIGHT, peer)
    assert (child.returncode, child.stdout) == (0, "submitted\n"), child.stderr
    assert peer.neighbours_are_untouched()
    assert peer.call("send_probe", peer.session) == 0


@pytest.mark.parametrize("code", [BATCHES_IN_FLIGHT, CALLS_THAT_WAIT], ids=["batches", "calls"])
def test_process_ends_while_its_peer_is_frozen(peer, code):
    # The first transfer makes the connection, which a frozen peer could not accept.
    warm = "assert engine.transfer_sync_write(session, local, address, 1) == 0\nos.kill(PEER, 19)\n"
    child = run(warm.replace("PEER", str(peer.process.pid)) + code, peer)
    assert child.returncode == 0 and child.stdout, child.stderr
    peer.thaw()


def test_forked_child_gets_an_error_and_the_parent_goes_on(peer):
    child = run(FORK, peer)
    assert (child.returncode, child.stdout) == (0, "forked\n"), child.stderr
    assert "forked" in child.stderr


def test_killed_initiator_leaves_the_target_as_it_was(peer, tmp_path):
    initiator = Peer(tmp_path / "initiator.log")
    initiator.fill(1)
    for _ in range(20):
        arguments = (peer.session, initiator.address, peer.address, PART_BYTES)
        assert initiator.call("transfer_submit_write", *arguments)
    initiator.kill()
    initiator.stop()
    assert peer.neighbours_are_untouched()
    assert peer.call("send_probe", peer.session) == 0


def test_restarted_peer_is_not_written_with_addresses_of_the_old_one(tmp_path):
    """The port is the name, so a new process with that port is the same segment in a new life."""
    engine, memory = TransferEngine(), Memory()
    assert engine.initialize(HOST, PEER_TO_PEER, "tcp", "") == 0
    memory.set(0, pattern(10, 4096))
    name = f"{HOST}:{free_ports(1)[0]}"
    old = Peer(tmp_path / "old.log", name=name)
    assert old.session == name
    assert engine.transfer_sync_write(name, memory.registered, old.address, 4096) == 0
    old.kill()
    old.stop()
    new = Peer(tmp_path / "new.log", name=name)
    try:
        assert engine.transfer_sync_write(name, memory.registered, old.address, 4096) == -1
        assert new.get(0, PART_BYTES) == bytes(PART_BYTES) and new.neighbours_are_untouched()
        # The first call that meets the new life is refused, whatever addresses it has.
        there = (name, memory.registered, new.address, 4096)
        assert 0 in (engine.transfer_sync_write(*there) for _ in range(2))
        assert new.get(0, 4096) == pattern(10, 4096)
    finally:
        assert new.stop() == 0


@pytest.fixture
def metadata(tmp_path):
    [port] = free_ports(1)
    server = Process(
        [program("mooncake_http_metadata_server"), "--host", HOST, "--port", str(port)],
        tmp_path / "metadata.log",
    )
    wait_until(lambda: server.alive() and listens(port), START_TIMEOUT_S, "metadata server start")
    yield f"http://{HOST}:{port}/metadata"
    server.stop()


def test_engines_find_each_other_by_name_at_a_metadata_server(metadata, tmp_path):
    first, second = (f"{HOST}:{port}" for port in free_ports(2))
    one = Peer(tmp_path / "one.log", name=first, metadata=metadata)
    other = Peer(tmp_path / "other.log", name=second, metadata=metadata)
    try:
        one.fill(8)
        arguments = (second, one.address, other.address, PART_BYTES)
        assert one.call("transfer_sync_write", *arguments) == 0
        assert other.get(0, PART_BYTES) == pattern(8, PART_BYTES)
        assert one.call("get_first_buffer_address", second) == other.address
        assert other.call("send_probe", first) == 0
        assert one.call("transfer_sync_write", "nowhere:1", one.address, 4096, 1) == -1
    finally:
        assert (one.stop(), other.stop()) == (0, 0)


@pytest.mark.cluster
@pytest.mark.parametrize("protocol", ["tcp", "rdma"])
def test_store_is_set_up_with_an_engine_and_its_name(master_address, protocol):
    """SGLang names the store by the engine's host and port and hands the engine over."""
    from mooncake.store import MooncakeDistributedStore

    engine, memory = TransferEngine(), Memory()
    assert engine.initialize(HOST, PEER_TO_PEER, "tcp", "") == 0
    assert engine.register_memory(memory.registered, PART_BYTES) == 0
    name = f"{HOST}:{engine.get_rpc_port()}"
    seven = (name, PEER_TO_PEER, 64 << 20, 16 << 20, protocol, "", master_address)
    store, reader = MooncakeDistributedStore(), connect(master_address)
    try:
        assert store.setup(*seven, engine.get_engine()) == 0
        del engine
        memory.set(0, pattern(9, 100_000))
        assert store.register_buffer(memory.registered, PART_BYTES) == 0
        assert store.put_from("engine", memory.registered, 100_000) == 0
        assert reader.get("engine") == pattern(9, 100_000)
        assert reader.remove("engine", True) == 0
    finally:
        assert (store.close(), reader.close()) == (0, 0)


def test_store_refuses_an_engine_that_is_none():
    from mooncake.store import MooncakeDistributedStore

    with pytest.raises(TypeError, match="engine"):
        MooncakeDistributedStore().setup("h", PEER_TO_PEER, 0, 0, "tcp", "", "h:1", "engine")
