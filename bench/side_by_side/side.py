"""One implementation for one round: a fresh master, processes that own segments, clients without any."""

import json
import os
import time
import urllib.request

from bench.demo.cluster import HOST, free_ports
from bench.demo.process import Process, ProcessError
from bench.side_by_side.accounting import cpu_seconds, resident_bytes
from bench.side_by_side.child import Child, end_session

READY_SECONDS = 30
POLL_SECONDS = 0.05
HTTP_SECONDS = 5
LOCAL_BUFFER_BYTES = 64 << 20
#: A segment counts as prefaulted when so much of it is resident, or when its owner's memory stopped growing.
PREFAULTED_SHARE = 0.98
STEADY_SECONDS = 1.0
STEADY_BYTES = 1 << 20
PREFAULT_SECONDS_MAX = 120
WORKER = "bench.side_by_side.worker"


class Implementation:
    """A label, the interpreter its module is installed in, and its environment."""

    def __init__(self, label, python, environment):
        self.label = label
        self.python = os.path.abspath(python)
        self.environment = environment

    def program(self, name):
        """Path of a program beside the interpreter."""
        path = os.path.join(os.path.dirname(self.python), name)
        if not os.access(path, os.X_OK):
            raise ProcessError(f"{self.label}: no {name} beside {self.python}")
        return path


class Side:
    """Running processes of one implementation; use as a context."""

    def __init__(self, implementation, log_folder, lease_ms):
        self.implementation = implementation
        self.log_folder = log_folder
        self.children = []
        self.owners = []
        rpc_port, self.http_port = free_ports(2)
        self.master_address = f"{HOST}:{rpc_port}"
        command = [
            implementation.program("mooncake_master"),
            f"--rpc_address={HOST}",
            f"--rpc_port={rpc_port}",
            f"--metrics_host={HOST}",
            f"--metrics_port={self.http_port}",
            f"--default_kv_lease_ttl={lease_ms}",
            "--logtostderr=true",
        ]
        self.master = Process("master", command, log_folder, implementation.environment)

    def __enter__(self):
        try:
            self.wait_for_master()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_):
        self.stop()

    def wait_for_master(self):
        """Returns when the master answers on its HTTP port."""
        deadline = time.monotonic() + READY_SECONDS
        while True:
            self.master.check_running()
            try:
                if self.http("/health"):
                    return
            except OSError:
                pass
            if time.monotonic() > deadline:
                raise ProcessError(f"the master was not there after {READY_SECONDS} s:\n{self.master.tail()}")
            time.sleep(POLL_SECONDS)

    def http(self, path):
        """Body of a GET on the master."""
        with urllib.request.urlopen(f"http://{HOST}:{self.http_port}{path}", timeout=HTTP_SECONDS) as reply:
            return reply.read().decode(errors="replace")

    def metric(self, name):
        """Value of a metric without labels; 0 if there is none."""
        values = [line.split()[1] for line in self.http("/metrics").splitlines() if line.startswith(name + " ")]
        return float(values[0]) if values else 0.0

    def setup_arguments(self, segment_bytes):
        """Positional arguments of `setup` for a new process."""
        [port] = free_ports(1)
        name = f"{HOST}:{port}"
        return [name, "P2PHANDSHAKE", segment_bytes, LOCAL_BUFFER_BYTES, "tcp", "", self.master_address]

    def child(self, name, module):
        """A new process of this implementation, not yet a client."""
        implementation = self.implementation
        child = Child(name, implementation.python, module, self.log_folder, implementation.environment)
        self.children.append(child)
        return child

    def client(self, name, segment_bytes=0, room=0, value_bytes_max=1):
        """A process that is a client with a registered buffer of `room` bytes."""
        child = self.child(name, WORKER)
        setup = self.setup_arguments(segment_bytes)
        child.ask({"do": "open", "setup": setup, "room": room, "value_bytes_max": value_bytes_max})
        return child

    def own_segment(self, name, segment_bytes):
        """A process that donates a segment and does nothing else; returns when its pages are there."""
        owner = self.client(name, segment_bytes)
        self.owners.append(owner)
        started = steady_since = time.monotonic()
        highest = 0
        while time.monotonic() - started < PREFAULT_SECONDS_MAX:
            resident = resident_bytes(owner.pid)
            if resident >= PREFAULTED_SHARE * segment_bytes:
                return
            if resident > highest + STEADY_BYTES:
                highest, steady_since = resident, time.monotonic()
            elif time.monotonic() - steady_since > STEADY_SECONDS:
                return
            time.sleep(POLL_SECONDS)

    def cpu(self):
        """CPU seconds so far of the master and of the segments' owners."""
        owners = sum(cpu_seconds(owner.pid) for owner in self.owners)
        return {"master": cpu_seconds(self.master.child.pid), "provider": owners}

    def memory(self):
        """Resident bytes of the master and of the segments' owners."""
        owners = sum(resident_bytes(owner.pid) for owner in self.owners)
        return {"master": resident_bytes(self.master.child.pid), "provider": owners}

    def stop(self):
        """Ends everything, clients first."""
        for child in reversed(self.children):
            child.stop()
        self.children, self.owners = [], []
        self.master.stop()
        end_session(self.master.child.pid)


class Output:
    """JSON lines on stdout and in a file."""

    def __init__(self, path):
        self.file = open(path, "a", encoding="utf-8") if path else None  # noqa: SIM115  (open for the whole run)

    def write(self, row):
        """One line."""
        line = json.dumps(row)
        print(line, flush=True)
        if self.file:
            self.file.write(line + "\n")
            self.file.flush()
