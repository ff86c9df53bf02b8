"""A master, nodes behind virtual NICs, a client at work and an agent, as real processes.

Everything has a folder, ports and NICs of its own, so several may run on one host.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
BUILT = ROOT / "target" / f"{os.uname().machine}-unknown-linux-gnu" / "release"
PROGRAM = os.environ.get("PERIGEE_BIN") or str(BUILT / "perigee")
DEADLINE_S = 120

#: Puts and gets until it is killed; values from 16 KiB to 1 MiB go to all nodes, the oldest are evicted.
LOAD = """
import itertools, sys, time
from mooncake.store import MooncakeDistributedStore
store = MooncakeDistributedStore()
assert store.setup(sys.argv[2], "P2PHANDSHAKE", 0, 64 << 20, "tcp", "", sys.argv[1]) == 0
values = [bytes(1 << power) for power in (14, 17, 20, 17)]
for step in itertools.count():
    store.put(f"key-{step}", values[step % len(values)])
    store.get(f"key-{step}")
    time.sleep(0.002)
"""


def free_port():
    """A port without a listener."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def fetch(url):
    """The body behind a URL."""
    with urllib.request.urlopen(url, timeout=10) as answer:
        return answer.read().decode()


def until(condition, what, deadline_s=DEADLINE_S):
    """Wait for a condition and return its value; one that cannot be asked yet does not hold."""
    deadline = time.monotonic() + deadline_s
    while True:
        try:
            found, why = condition(), ""
        except (OSError, ValueError, LookupError, TypeError) as error:
            found, why = None, f" ({error!r})"
        if found:
            return found
        assert time.monotonic() < deadline, f"no {what} in {deadline_s} s{why}"
        time.sleep(0.1)


def run(*words):
    """Run a command that must succeed."""
    done = subprocess.run(words, capture_output=True, text=True, timeout=DEADLINE_S)
    assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
    return done.stdout


class Rail:
    """A NIC of this host whose other end is a namespace. Its speed is the 10 Gbit/s the kernel gives a veth."""

    def __init__(self, name):
        self.name = name
        self.space = f"perigee-{name}-{secrets.token_hex(3)}"
        network = 4 * secrets.randbelow(1 << 14)
        prefix = f"10.213.{network >> 8}"
        self.here, self.there = f"{prefix}.{network & 255 | 1}", f"{prefix}.{network & 255 | 2}"

    def up(self):
        """Create both ends."""
        run("ip", "netns", "add", self.space)
        peer = ["type", "veth", "peer", "name", f"{self.name}-far", "netns", self.space]
        run("ip", "link", "add", self.name, *peer)
        run("ip", "address", "add", f"{self.here}/30", "dev", self.name)
        run("ip", "link", "set", self.name, "up")
        run("ip", "-n", self.space, "address", "add", f"{self.there}/30", "dev", f"{self.name}-far")
        for device in ("lo", f"{self.name}-far"):
            run("ip", "-n", self.space, "link", "set", device, "up")
        run("ip", "-n", self.space, "route", "add", "default", "via", self.here)

    def down(self):
        """Delete both ends, if they are there."""
        for words in (["link", "del", self.name], ["netns", "del", self.space]):
            subprocess.run(["ip", *words], capture_output=True, check=False)


class Cluster:
    """Processes by name. Use as a context: leaving it ends all of them."""

    def __init__(self, folder, master_flags=()):
        self.folder = Path(folder)
        self.processes = {}
        self.rails = []
        self.activity = self.folder / "activity"
        self.activity.mkdir(parents=True, exist_ok=True)
        # Processes of other users leave their pages here, too.
        self.activity.chmod(0o1777)
        self.rpc, self.admin, self.web = free_port(), free_port(), free_port()
        self.master_flags = list(master_flags)
        self.environment = os.environ | {
            "PERIGEE_SHARED_MEMORY": "0",
            "PERIGEE_ACTIVITY_DIR": str(self.activity),
        }

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for name in reversed(list(self.processes)):
            self.stop(name)
        for rail in self.rails:
            rail.down()

    @property
    def agent_url(self):
        """Where the agent serves."""
        return f"http://127.0.0.1:{self.web}"

    def start(self, name, *words, **options):
        """Start a process; its output goes to a file of its name."""
        with (self.folder / f"{name}.log").open("ab") as log:
            options = {"stdout": log, "stderr": log, "env": self.environment} | options
            self.processes[name] = subprocess.Popen([str(word) for word in words], **options)
        return self.processes[name]

    def stop(self, name, kill=False):
        """End a process and wait for it."""
        process = self.processes.pop(name)
        if kill:
            process.kill()
        else:
            process.terminate()
        try:
            return process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()

    def log(self, name):
        """What a process has written."""
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def start_master(self):
        """Start the master and wait until it serves."""
        flags = ["--rpc_address=0.0.0.0", f"--rpc_port={self.rpc}", f"--metrics_port={self.admin}"]
        self.start("master", PROGRAM, "master", *flags, *self.master_flags)
        until(lambda: fetch(f"http://127.0.0.1:{self.admin}/readyz"), "master")

    def start_node(self, rail=None, size="256MB", name=None, flags=()):
        """Start a node, behind a rail if there is one, and wait until its memory is mounted."""
        before = len(self.segments())
        name = name or f"node-{rail.name if rail else before}"
        inside = ["ip", "netns", "exec", rail.space] if rail else []
        master = f"{rail.here if rail else '127.0.0.1'}:{self.rpc}"
        self.start(
            name, *inside, PROGRAM, "node", f"--master_server_address={master}", "--port=0",
            f"--host={rail.there if rail else '127.0.0.1'}", f"--global_segment_size={size}", *flags,
        )
        until(lambda: len(self.segments()) > before, f"segment of {name}")

    def start_agent(self, *flags, prefix=(), name="agent", ready=True, **options):
        """Start the agent, perhaps under a command that takes rights away."""
        self.start(
            name, *prefix, PROGRAM, "agent", f"--port={self.web}",
            f"--state_dir={self.folder / 'state'}", *flags, **options,
        )
        if ready:
            until(lambda: fetch(f"{self.agent_url}/readyz"), "agent")

    def start_load(self, name="load"):
        """Start a client that puts and gets."""
        self.start(name, sys.executable, "-c", LOAD, f"127.0.0.1:{self.rpc}", "127.0.0.1")

    def add_rail(self, name):
        """A NIC of this name."""
        rail = Rail(name)
        self.rails.append(rail)
        rail.up()
        return rail

    def segments(self):
        """Names of the mounted segments."""
        return fetch(f"http://127.0.0.1:{self.admin}/get_all_segments").split()

    def snapshot(self):
        """What the agent knows now."""
        return json.loads(fetch(f"{self.agent_url}/snapshot.json"))

    def metric(self, name):
        """Values of a metric family by labels."""
        lines = fetch(f"{self.agent_url}/metrics").splitlines()
        found = (line.rsplit(" ", 1) for line in lines if line.startswith((f"{name}{{", f"{name} ")))
        return {labels.removeprefix(name): float(value) for labels, value in found}
