"""A master that publishes key events."""

import json
import os
import signal
import urllib.request

from conftest import START_TIMEOUT_S, Process, free_ports, listens, program, wait_until

SEGMENT_BYTES = 16 << 20


class Master:
    """A master that publishes events, on ports that it keeps over a restart."""

    def __init__(self, folder, arguments=()):
        self.rpc, self.http, self.publish, self.replay = free_ports(4)
        self.arguments = [
            program("mooncake_master"),
            "--rpc_address=127.0.0.1",
            f"--rpc_port={self.rpc}",
            "--metrics_host=127.0.0.1",
            f"--metrics_port={self.http}",
            "--enable_kv_events",
            f"--kv_events_bind_endpoint=tcp://127.0.0.1:{self.publish}",
            f"--kv_events_replay_endpoint=tcp://127.0.0.1:{self.replay}",
            "--kv_events_backend_id=test-pool",
            "--default_kv_lease_ttl=50",
            *arguments,
        ]
        self.log = folder / "master.log"
        self.start()

    def start(self):
        self.process = Process(self.arguments, self.log)
        wait_until(self.has_started, START_TIMEOUT_S, "master start")

    def has_started(self):
        return self.process.alive() and listens(self.rpc) and listens(self.http)

    def kill(self):
        os.kill(self.process.process.pid, signal.SIGKILL)
        self.process.stop()

    def get(self, route):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.http}{route}", timeout=10) as answer:
            return answer.read().decode()

    def keys(self):
        return set(self.get("/get_all_keys").split())

    def status(self):
        return json.loads(self.get("/kv_events/status"))

    def snapshot(self):
        """Return the sequence number from which events follow, and a line for each medium."""
        head, *objects = [json.loads(line) for line in self.get("/kv_events/snapshot").splitlines()]
        assert head["sequence_text"] == str(head["sequence"])
        return head["sequence"], objects
