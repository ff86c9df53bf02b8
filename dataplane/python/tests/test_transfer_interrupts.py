"""Ctrl-C during a transfer whose peer has frozen: the call ends, and nothing is written to its buffers afterwards."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import (
    SEGMENT,
    START_TIMEOUT_S,
    Process,
    free_ports,
    has_segments,
    listens,
    program,
    wait_until,
)
from engine_peer import Peer

# Far less than the ten seconds, or thirty with an engine, after which the call would end by itself.
INTERRUPT_S = 4
CHILD_TIMEOUT_S = 60
# Numbers of poll and ppoll, and of futex, on x86-64 and aarch64.
WAITS = {"7", "271", "73", "202", "98"}

WAITING = """
import ctypes, signal, sys, time
def handle(number, frame):
    raise KeyboardInterrupt
signal.signal(signal.SIGINT, handle)
def interrupted(call, buffer, fresh, thawed_call):
    print("ready", flush=True)
    sys.stdin.readline()
    try:
        print("answered", call(), flush=True)
    except KeyboardInterrupt:
        print("interrupted", time.monotonic(), flush=True)
    before = bytes(buffer)
    sys.stdin.readline()
    # The peer goes on: what it has answered late has come when it answers this.
    deadline = time.monotonic() + 30
    while not thawed_call() and time.monotonic() < deadline:
        time.sleep(0.05)
    print("same" if bytes(buffer) == before else "changed", bytes(fresh) == before, flush=True)
"""

STORE_CHILD = """
from mooncake.store import MooncakeDistributedStore
store = MooncakeDistributedStore()
assert store.setup("127.0.0.1", "P2PHANDSHAKE", 0, 1 << 24, "tcp", "", sys.argv[1]) == 0
size = int(sys.argv[2])
assert store.put("k", b"v" * size) == 0
buffer, fresh = [(ctypes.c_char * size)() for _ in range(2)]
into = lambda target: store.get_into("k", ctypes.addressof(target), size)
assert into(buffer) == size
buffer.raw = b"b" * size
interrupted(lambda: into(buffer), buffer, fresh, lambda: into(fresh) == size)
assert store.close() == 0
"""

ENGINE_CHILD = """
from mooncake.engine import TransferEngine
engine = TransferEngine()
assert engine.initialize("127.0.0.1", "P2PHANDSHAKE", "tcp", "") == 0
session, address, size = sys.argv[1], int(sys.argv[3]), int(sys.argv[2])
buffer, fresh = [(ctypes.c_char * size)() for _ in range(2)]
def into(target):
    return engine.transfer_sync_read(session, ctypes.addressof(target), address, size)
assert into(buffer) == 0
buffer.raw = b"b" * size
interrupted(lambda: into(buffer), buffer, fresh, lambda: into(fresh) == 0)
"""


@pytest.fixture
def cluster(tmp_path):
    """A master and a node: the address of the one, the process of the other."""
    rpc, metrics, port = free_ports(3)
    address = f"127.0.0.1:{rpc}"
    flags = [
        "--rpc_address=127.0.0.1",
        f"--rpc_port={rpc}",
        "--metrics_host=127.0.0.1",
        f"--metrics_port={metrics}",
        # The node is not forgotten while it is frozen.
        "--client_ttl=600",
        "--default_kv_lease_ttl=600000",
    ]
    master = Process([program("mooncake_master"), *flags], tmp_path / "master.log")
    try:
        wait_until(lambda: master.alive() and listens(rpc), START_TIMEOUT_S, "master start")
        flags = [
            "--host=127.0.0.1",
            f"--port={port}",
            f"--global_segment_size={SEGMENT}",
            f"--master_server_address={address}",
            "--metadata_server=P2PHANDSHAKE",
            "--protocol=tcp",
        ]
        node = Process([program("mooncake_client"), *flags], tmp_path / "node.log")
        try:
            wait_until(
                lambda: node.alive() and has_segments(metrics), START_TIMEOUT_S, "the segment"
            )
            yield address, node.process
        finally:
            node.process.send_signal(signal.SIGCONT)
            node.stop()
    finally:
        master.stop()


def has_stopped(pid):
    """Whether every thread of a process is stopped."""
    stats = [task / "stat" for task in Path(f"/proc/{pid}/task").iterdir()]
    return all(stat.read_text().rpartition(")")[2].split()[0] == "T" for stat in stats)


def waits(pid):
    """Whether the main thread of a process sleeps until a peer or a shard wakes it."""
    return Path(f"/proc/{pid}/task/{pid}/syscall").read_text().split()[0] in WAITS


def interrupt(script, arguments, frozen):
    """Run a child whose call is interrupted while the process `frozen` is stopped."""
    child = subprocess.Popen(
        [sys.executable, "-P", "-c", WAITING + script, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PERIGEE_SHARED_MEMORY": "0"},
    )
    try:
        assert child.stdout.readline() == "ready\n"
        frozen.send_signal(signal.SIGSTOP)
        wait_until(lambda: has_stopped(frozen.pid), START_TIMEOUT_S, "the peer's stop")
        child.stdin.write("\n")
        child.stdin.flush()
        wait_until(lambda: waits(child.pid), START_TIMEOUT_S, "the wait for the peer")
        sent = time.monotonic()
        child.send_signal(signal.SIGINT)
        words = child.stdout.readline().split()
        assert words[0] == "interrupted", words
        assert float(words[1]) - sent < INTERRUPT_S
        frozen.send_signal(signal.SIGCONT)
        child.stdin.write("\n")
        child.stdin.flush()
        assert child.stdout.readline() == "same False\n"
        assert child.wait(CHILD_TIMEOUT_S) == 0
    finally:
        child.kill()
        child.wait(CHILD_TIMEOUT_S)


# What the calling thread moves itself, and what shards move for it.
@pytest.mark.cluster
@pytest.mark.parametrize("size", [4096, 4 << 20])
def test_ctrl_c_ends_a_get_from_a_frozen_node(cluster, size):
    address, node = cluster
    interrupt(STORE_CHILD, [address, size], node)


@pytest.mark.parametrize("size", [4096, 4 << 20])
def test_ctrl_c_ends_a_read_from_a_frozen_engine(tmp_path, size):
    peer = Peer(tmp_path / "peer.log", environment={"PERIGEE_SHARED_MEMORY": "0"})
    try:
        peer.fill(1)
        interrupt(ENGINE_CHILD, [peer.session, size, peer.address], peer.process)
    finally:
        assert peer.stop() == 0, peer.text()
