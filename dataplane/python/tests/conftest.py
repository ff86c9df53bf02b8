"""Fixtures: a real cluster on free loopback ports, and store clients of it.

`PERIGEE_TEST_MASTER=host:port` makes the cluster tests use a cluster that is running already; its
leases must last `LEASE_MS`, and its objects are removed.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from mooncake.store import MooncakeDistributedStore

LEASE_MS = 500
START_TIMEOUT_S = 30
STOP_TIMEOUT_S = 15
POLL_S = 0.02
SEGMENT = "512MB"
LOCAL_BUFFER_BYTES = 64 << 20


def wait_until(condition, timeout_s, what):
    """Poll `condition` until it is true; fail the test when `timeout_s` seconds are over."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            pytest.fail(f"{what} did not happen within {timeout_s} s")
        time.sleep(POLL_S)


def free_ports(count):
    """Return ports that were free a moment ago, all different."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def program(name):
    """Return the path of a console script of the interpreter that runs the tests."""
    path = Path(sys.executable).parent / name
    if not path.exists():
        found = shutil.which(name)
        assert found, f"{name} is not installed; install the wheel into this interpreter"
        path = Path(found)
    return str(path)


def listens(port):
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


class Process:
    """A program under test with its output in a file."""

    def __init__(self, arguments, log):
        self.log = log
        self.output = open(log, "wb")
        self.process = subprocess.Popen(arguments, stdout=self.output, stderr=self.output)

    def alive(self):
        assert self.process.poll() is None, self.log.read_text(errors="replace")
        return True

    def stop(self):
        """Ask it to stop; return its exit status, or fail after a while."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(STOP_TIMEOUT_S)
            raise
        finally:
            self.output.close()


def has_segments(metrics_port):
    url = f"http://127.0.0.1:{metrics_port}/get_all_segments"
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:
            return bool(answer.read().strip())
    except OSError:
        return False


@pytest.fixture(scope="session")
def master_address(tmp_path_factory):
    """Address of the master of a cluster with one node."""
    running = os.environ.get("PERIGEE_TEST_MASTER")
    if running:
        yield running
        return
    logs = tmp_path_factory.mktemp("cluster")
    rpc, metrics, node = free_ports(3)
    master = Process(
        [
            program("mooncake_master"),
            "--rpc_address=127.0.0.1",
            f"--rpc_port={rpc}",
            "--metrics_host=127.0.0.1",
            f"--metrics_port={metrics}",
            f"--default_kv_lease_ttl={LEASE_MS}",
            "--logtostderr=true",
        ],
        logs / "master.log",
    )
    with contextlib.ExitStack() as stack:
        stack.callback(master.stop)
        wait_until(lambda: master.alive() and listens(rpc), START_TIMEOUT_S, "master start")
        address = f"127.0.0.1:{rpc}"
        donor = Process(
            [
                program("mooncake_client"),
                "--host=127.0.0.1",
                f"--port={node}",
                f"--global_segment_size={SEGMENT}",
                f"--master_server_address={address}",
                "--metadata_server=P2PHANDSHAKE",
                "--protocol=tcp",
            ],
            logs / "node.log",
        )
        stack.callback(donor.stop)
        wait_until(
            lambda: master.alive() and donor.alive() and has_segments(metrics),
            START_TIMEOUT_S,
            "the node's segment at the master",
        )
        yield address


def connect(master_address, segment_bytes=0, local_buffer_bytes=LOCAL_BUFFER_BYTES, **settings):
    """Return a store client that is set up, with further settings."""
    store = MooncakeDistributedStore()
    code = store.setup(
        "127.0.0.1",
        "P2PHANDSHAKE",
        segment_bytes,
        local_buffer_bytes,
        "tcp",
        "",
        master_address,
        **settings,
    )
    assert code == 0
    return store


@pytest.fixture
def store(master_address):
    """A store client of a cluster without objects."""
    client = connect(master_address)
    assert client.remove_all(True) >= 0
    yield client
    client.remove_all(True)
    assert client.close() == 0
