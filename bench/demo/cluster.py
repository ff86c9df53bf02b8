"""One master and some nodes on free loopback ports."""

import json
import os
import socket
import sys
import time
import urllib.error
import urllib.request

from bench.demo.process import Process, ProcessError

HOST = "127.0.0.1"
READY_SECONDS = 30
POLL_SECONDS = 0.05
HTTP_SECONDS = 5
#: Another program may take a port between our asking and the program's binding.
START_TRIES = 3


def free_ports(count):
    """`count` distinct ports that were free a moment ago."""
    listeners = []
    try:
        for _ in range(count):
            listeners.append(socket.create_server((HOST, 0)))
        return [listener.getsockname()[1] for listener in listeners]
    finally:
        for listener in listeners:
            listener.close()


def program(name):
    """Path of a program of the wheel, beside this interpreter."""
    path = os.path.join(os.path.dirname(sys.executable), name)
    if not os.access(path, os.X_OK):
        raise ProcessError(f"no {name} beside {sys.executable}; run `make demo`, which installs the wheel")
    return path


class Cluster:
    """Starts on construction; `stop` ends it and tells what was wrong."""

    def __init__(self, nodes, node_bytes, log_folder, environment=None):
        self.log_folder = log_folder
        self.environment = environment or {}
        self.processes = []
        for tries_left in reversed(range(START_TRIES)):
            try:
                self.start(nodes, node_bytes)
                return
            except ProcessError:
                self.kill()
                if not tries_left:
                    raise
            except BaseException:
                self.kill()
                raise

    def start(self, nodes, node_bytes):
        rpc_port, self.http_port, *node_ports = free_ports(2 + nodes)
        self.master_address = f"{HOST}:{rpc_port}"
        self.launch(
            "master",
            "mooncake_master",
            f"--rpc_address={HOST}",
            f"--rpc_port={rpc_port}",
            f"--metrics_host={HOST}",
            f"--metrics_port={self.http_port}",
            "--logtostderr=true",
        )
        self.wait(f"the master on port {self.http_port}", self.is_serving)
        for number, port in enumerate(node_ports, 1):
            self.launch(
                f"node-{number}",
                "mooncake_client",
                f"--host={HOST}",
                f"--port={port}",
                f"--global_segment_size={node_bytes}",
                f"--master_server_address={self.master_address}",
                "--metadata_server=P2PHANDSHAKE",
                "--protocol=tcp",
                "--logtostderr=true",
            )
        self.wait(f"{nodes} segments", lambda: len(self.http("/get_all_segments").split()) >= nodes)

    def launch(self, name, program_name, *flags):
        command = [program(program_name), *flags]
        self.processes.append(Process(name, command, self.log_folder, self.environment))

    def wait(self, what, is_ready):
        """Polls until `is_ready()` or the deadline; ProcessError if a process ends before."""
        deadline = time.monotonic() + READY_SECONDS
        while True:
            for process in self.processes:
                process.check_running()
            try:
                if is_ready():
                    return
            except OSError:
                pass
            if time.monotonic() > deadline:
                tails = "\n".join(f"{p.log_path}:\n{p.tail()}" for p in self.processes)
                raise ProcessError(f"{what} not there after {READY_SECONDS} s\n{tails}")
            time.sleep(POLL_SECONDS)

    def is_serving(self):
        return self.http("/health") != ""

    def http(self, path):
        """Body of a GET on the master; OSError when it does not answer with 200."""
        with urllib.request.urlopen(f"http://{HOST}:{self.http_port}{path}", timeout=HTTP_SECONDS) as reply:
            return reply.read().decode()

    def metric(self, name):
        """Value of a metric without labels, or None."""
        for line in self.http("/metrics").splitlines():
            if line.startswith(name + " "):
                return float(line.split()[1])
        return None

    def nodes(self):
        """(segment name, used bytes, capacity bytes) of every segment."""
        segments = json.loads(self.http("/get_segments_detail"))["segments"]
        return [(s["segment_name"], s["allocator_used_bytes"], s["size_bytes"]) for s in segments]

    def stop(self):
        """Nodes first, then the master; returns the complaints."""
        complaints = [process.stop() for process in reversed(self.processes)]
        self.processes = []
        return [complaint for complaint in complaints if complaint]

    def kill(self):
        """Ends everything at once."""
        for process in reversed(self.processes):
            process.kill()
        self.processes = []
