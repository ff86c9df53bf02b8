"""Ctrl-C during a call that waits for a master that has frozen."""

import contextlib
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import START_TIMEOUT_S, Process, free_ports, listens, program, wait_until

pytestmark = pytest.mark.cluster

# Far less than the five seconds after which the call would end by itself.
INTERRUPT_S = 3
CHILD_TIMEOUT_S = 60
# Numbers of poll and ppoll, on x86-64 and aarch64.
POLLS = {"7", "271", "73"}

CHILD = """
import signal, sys, time
from mooncake.store import MooncakeDistributedStore
store = MooncakeDistributedStore()
assert store.setup("127.0.0.1", "P2PHANDSHAKE", 0, 1 << 24, "tcp", "", sys.argv[1]) == 0
handled = []
def handle(number, frame):
    handled.append(time.monotonic())
    raise KeyboardInterrupt("from the handler")
signal.signal(signal.SIGINT, handle)
print("ready", flush=True)
sys.stdin.readline()
try:
    print("answered", store.is_exist("k"), flush=True)
except KeyboardInterrupt as error:
    assert error.args == ("from the handler",), error.args
    print("interrupted", time.monotonic(), len(handled), flush=True)
sys.stdin.readline()
print("exists", store.is_exist("k"), flush=True)
assert store.close() == 0
"""


@pytest.fixture
def master(tmp_path):
    rpc, metrics = free_ports(2)
    flags = [
        "--rpc_address=127.0.0.1",
        f"--rpc_port={rpc}",
        "--metrics_host=127.0.0.1",
        f"--metrics_port={metrics}",
    ]
    running = Process([program("mooncake_master"), *flags], tmp_path / "master.log")
    wait_until(lambda: running.alive() and listens(rpc), START_TIMEOUT_S, "master start")
    running.address = f"127.0.0.1:{rpc}"
    yield running
    running.process.send_signal(signal.SIGCONT)
    running.stop()


def has_stopped(pid):
    """Whether every thread of a process is stopped."""
    stats = [task / "stat" for task in Path(f"/proc/{pid}/task").iterdir()]
    return all(stat.read_text().rpartition(")")[2].split()[0] == "T" for stat in stats)


def is_polling(pid):
    """Whether the main thread of a process sleeps in poll."""
    return Path(f"/proc/{pid}/task/{pid}/syscall").read_text().split()[0] in POLLS


def test_ctrl_c_ends_a_call_to_a_frozen_master(master):
    child = subprocess.Popen(
        [sys.executable, "-P", "-c", CHILD, master.address],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with contextlib.ExitStack() as stack:
        stack.callback(child.kill)
        assert child.stdout.readline() == "ready\n"
        master.process.send_signal(signal.SIGSTOP)
        wait_until(lambda: has_stopped(master.process.pid), START_TIMEOUT_S, "the master's stop")
        child.stdin.write("\n")
        child.stdin.flush()
        wait_until(lambda: is_polling(child.pid), START_TIMEOUT_S, "the wait for the master")
        sent = time.monotonic()
        child.send_signal(signal.SIGINT)
        words = child.stdout.readline().split()
        assert words[0] == "interrupted", words
        assert float(words[1]) - sent < INTERRUPT_S
        assert words[2] == "1", "the handler runs once"
        master.process.send_signal(signal.SIGCONT)
        child.stdin.write("\n")
        child.stdin.flush()
        # The first call after the interruption asks the master again.
        assert child.stdout.readline() == "exists 0\n"
        assert child.wait(CHILD_TIMEOUT_S) == 0
