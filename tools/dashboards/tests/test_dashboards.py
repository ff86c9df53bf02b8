"""Every panel of every dashboard returns data from a real Prometheus that scrapes a running cluster."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[1]
ROOT = FOLDER.parents[1]
PROGRAM = os.environ.get("PERIGEE_BIN") or str(ROOT / "target" / "release" / "perigee")
DEADLINE_S = 60
#: What `$__rate_interval` and `$device` stand for.
VARIABLES = {"$__rate_interval": "20s", "$device": ".*"}
#: Needs hardware that this host may not have: RDMA ports, NICs that tell their speed.
OPTIONAL = {"Congestion and retries inside RDMA ports", "Share of the link"}

LOAD = """
import sys, time
from mooncake.store import MooncakeDistributedStore
store = MooncakeDistributedStore()
assert store.setup("127.0.0.1", "P2PHANDSHAKE", 0, 64 << 20, "tcp", "", sys.argv[1]) == 0
value, step = bytes(1 << 18), 0
print("ready", flush=True)
while True:
    store.put(f"key-{step % 1000}", value)
    store.get(f"key-{step % 1000}")
    step += 1
    time.sleep(0.002)
"""


def free_port():
    """A port that nobody listens on now."""
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def fetch(url):
    """The body behind a URL."""
    with urllib.request.urlopen(url, timeout=10) as answer:
        return answer.read().decode()


def until(condition, what):
    """Wait for a condition; a condition that cannot be asked yet does not hold."""
    deadline = time.monotonic() + DEADLINE_S
    while True:
        try:
            found = condition()
        except OSError:
            found = None
        if found:
            return found
        assert time.monotonic() < deadline, f"no {what} in {DEADLINE_S} s"
        time.sleep(0.2)


class Cluster:
    """A master, a node, an agent, a client at work, and a Prometheus that scrapes them."""

    def __init__(self, folder):
        self.processes = []
        self.folder = folder
        self.rpc, self.admin, self.node, self.agent, self.web = (free_port() for _ in range(5))

    def start(self, *words, **options):
        log = (self.folder / f"{len(self.processes)}.log").open("wb")
        environment = os.environ | {"PERIGEE_SHARED_MEMORY": "0"}
        process = subprocess.Popen(words, stdout=log, stderr=log, env=environment, **options)
        self.processes.append(process)

    def up(self):
        self.start(PROGRAM, "master", f"--rpc_port={self.rpc}", f"--metrics_port={self.admin}")
        until(lambda: fetch(f"http://127.0.0.1:{self.admin}/readyz"), "master")
        master = f"127.0.0.1:{self.rpc}"
        self.start(
            PROGRAM, "node", f"--master_server_address={master}", "--global_segment_size=512MB",
            f"--port={self.node}",
        )
        state = f"--state_dir={self.folder / 'state'}"
        self.start(
            PROGRAM, "agent", f"--port={self.agent}", state, "--measure_costs=true"
        )
        until(lambda: "segments" in fetch(f"http://127.0.0.1:{self.admin}/metrics"), "node")
        self.start(sys.executable, "-c", LOAD, master)
        self.start(
            "prometheus", f"--config.file={self.configuration()}",
            f"--storage.tsdb.path={self.folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{self.web}",
        )
        until(lambda: self.ask("perigee:flow_latency:p99"), "recorded series")

    def configuration(self):
        for name in ("recording.yml", "alerts.yml"):
            shutil.copy(FOLDER / "prometheus" / name, self.folder / name)
        text = (FOLDER / "prometheus" / "perigee.yml").read_text()
        text = text.replace("5s", "1s").replace("9003", str(self.admin))
        text = text.replace("9305", str(self.agent))
        path = self.folder / "perigee.yml"
        path.write_text(text)
        return path

    def ask(self, query):
        url = f"http://127.0.0.1:{self.web}/api/v1/query?"
        answer = json.loads(fetch(url + urllib.parse.urlencode({"query": query})))
        return answer["data"]["result"]

    def alerts(self):
        answer = json.loads(fetch(f"http://127.0.0.1:{self.web}/api/v1/alerts"))
        return {alert["labels"]["alertname"]: alert["state"] for alert in answer["data"]["alerts"]}

    def down(self):
        for process in reversed(self.processes):
            process.terminate()
        for process in self.processes:
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """A cluster at work."""
    if shutil.which("prometheus") is None:
        pytest.skip("no prometheus; apt-get install prometheus")
    made = Cluster(tmp_path_factory.mktemp("cluster"))
    try:
        made.up()
        yield made
    finally:
        made.down()


def panels():
    """Dashboard, panel and query of everything that is shown."""
    for file in sorted((FOLDER / "grafana").glob("*.json")):
        for panel in json.loads(file.read_text())["panels"]:
            for target in panel.get("targets", []):
                if panel["title"] not in OPTIONAL:
                    yield pytest.param(target["expr"], id=f"{file.stem}: {panel['title']}")


@pytest.mark.parametrize("query", list(panels()))
def test_a_panel_shows_something(cluster, query):
    for variable, value in VARIABLES.items():
        query = query.replace(variable, value)
    until(lambda: cluster.ask(query), f"data for {query}")


def test_rules_are_loaded_and_a_dead_agent_is_noticed(cluster):
    url = f"http://127.0.0.1:{cluster.web}/api/v1/rules"
    groups = json.loads(fetch(url))["data"]["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    assert len(rules) >= 15
    assert all(rule["health"] != "err" for rule in rules), rules
    agent = cluster.processes[2]
    agent.kill()
    agent.wait()
    until(lambda: "PerigeeAgentDown" in cluster.alerts(), "alert")
