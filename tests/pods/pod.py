"""One pod: a process with network, host name, processes, /dev/shm, /etc/hosts and memory limit of its own."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path

import namespace
from memory_limit import MemoryLimit

FOLDER = Path(__file__).resolve().parent
DEADLINE_S = 120
POLL_S = 0.05
LOG_TAIL = 6000


def wait_until(condition, what, deadline_s=DEADLINE_S):
    """Returns the first true value of `condition`; fails when the deadline is over."""
    deadline = time.monotonic() + deadline_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            details = what() if callable(what) else what
            raise AssertionError(f"not within {deadline_s} s: {details}")
        time.sleep(POLL_S)


@dataclass(frozen=True)
class Limits:
    """What a runtime gives a container; the defaults are those of one that asks for nothing."""

    memory_bytes: int = 0
    shm_bytes: int = 64 << 20
    #: As the default seccomp profiles do.
    refuses_io_uring: bool = False
    #: Files of config maps by the folder where they are mounted.
    folders: dict = field(default_factory=dict)


class Pod:
    """A running pod; `stop` or `kill` ends it."""

    def __init__(self, name, address, folder, command, environment, files, limits):
        self.name = name
        self.address = address
        self.log_path = folder / f"{name}.{address}.log"
        self.limit = MemoryLimit(f"{name}.{address}", limits.memory_bytes)
        description = {
            "name": name,
            "address": address,
            "prefix": namespace.PREFIX,
            "gateway": namespace.GATEWAY,
            "shm_bytes": limits.shm_bytes,
            "refuses_io_uring": limits.refuses_io_uring,
            "files": files,
            "folders": limits.folders,
            "stage": str(folder),
            "command": command,
            "environment": environment,
        }
        path = folder / f"{name}.{address}.json"
        path.write_text(json.dumps(description))
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen(
                [
                    *"unshare --net --uts --ipc --mount --pid --fork --kill-child=SIGKILL".split(),
                    sys.executable,
                    "-I",
                    str(FOLDER / "first_process.py"),
                    str(path),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
            )
        self.first = wait_until(self._first_process, lambda: f"{name} starts\n{self.log()}")
        self.limit.add(self.first)
        self._connect()

    def _first_process(self):
        assert self.process.poll() is None, self.log()
        task = self.process.pid
        children = Path(f"/proc/{task}/task/{task}/children").read_text().split()
        return int(children[0]) if children else None

    def _connect(self):
        port = "v" + "".join(f"{int(part):02x}" for part in self.address.split(".")[2:])
        namespace.run(
            *["ip", "link", "add", port, "type", "veth"],
            *["peer", "name", "eth0", "netns", str(self.first)],
        )
        namespace.run("ip", "link", "set", port, "master", namespace.BRIDGE, "up")

    def log(self):
        text = self.log_path.read_text(errors="replace")
        return f"--- {self.name} {self.address}\n{text[-LOG_TAIL:]}"

    def is_running(self):
        return self.process.poll() is None

    def accepts(self, port):
        """Whether a connection from outside of the pod is accepted, as a kubelet's tcpSocket probe asks."""
        with socket.socket() as probe:
            probe.settimeout(1)
            return probe.connect_ex((self.address, port)) == 0

    def wait_for_port(self, port):
        def ready():
            assert self.is_running(), f"the pod ended with {self.process.poll()}\n{self.log()}"
            return self.accepts(port)

        wait_until(ready, lambda: f"{self.name} accepts on {port}\n{self.log()}")
        return self

    def http(self, method, port, path, body=None):
        """Status and body of a request to the pod's address."""
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        url = f"http://{self.address}:{port}{path}"
        request = urllib.request.Request(url, data=data, method=method, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=DEADLINE_S) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()

    def ask(self, port, path, body=None):
        """The JSON answer of a request that must succeed."""
        status, answer = self.http("GET" if body is None else "POST", port, path, body)
        assert status == 200, f"{path}: {status} {answer[:2000]!r}\n{self.log()}"
        return json.loads(answer)

    def run(self, *command, environment=None):
        """Runs a program inside the pod; returns exit status and output."""
        inside = ["nsenter", f"--target={self.first}", *"--net --uts --ipc --mount --pid --wd=/".split()]
        done = subprocess.run(
            [*inside, *command],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=DEADLINE_S,
        )
        return done.returncode, done.stdout

    def stop(self, grace_s=DEADLINE_S):
        """Deletes the pod as Kubernetes does: SIGTERM, then SIGKILL after the grace period.

        Returns the seconds that the pod took, or None if it had to be killed.
        """
        start = time.monotonic()
        if self.is_running():
            os.kill(self.first, signal.SIGTERM)
        try:
            self.process.wait(grace_s)
            return time.monotonic() - start
        except subprocess.TimeoutExpired:
            return None
        finally:
            self.kill()

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.limit.close()
