"""Every alert fires in a fault and resolves after it: real faults where this host can have them, else replayed series."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from cluster import until
from conftest import FOLDER

RULES = FOLDER / "prometheus"
REPLAYED = Path(__file__).with_name("replayed.yml")
#: Playing all series takes a minute of one core.
PROMTOOL_TIMEOUT_S = 400
#: What is provoked below.
PROVOKED = {
    "PerigeeNicDown", "PerigeeShardStarved", "PerigeeClientsLost", "PerigeeTransferErrors",
    "PerigeePoolFull", "PerigeeAgentDown", "PerigeeMasterNotReady",
}

#: Fills the pool with objects that may not be evicted, goes on trying until its input ends, then removes them.
FILL = """
import sys, threading
from mooncake.store import MooncakeDistributedStore, ReplicateConfig
store = MooncakeDistributedStore()
assert store.setup("127.0.0.1", "P2PHANDSHAKE", 0, 64 << 20, "tcp", "", sys.argv[1]) == 0
config, ended, kept = ReplicateConfig(), threading.Event(), []
config.with_hard_pin = True
threading.Thread(target=lambda: (sys.stdin.read(), ended.set())).start()
for size in (4 << 20, 256 << 10, 16 << 10):
    while not ended.is_set():
        if store.put(f"pinned-{len(kept)}", bytes(size), config) != 0:
            break
        kept.append(f"pinned-{len(kept)}")
while not ended.wait(0.05):
    store.put("one more", bytes(4 << 20), config)
for key in kept:
    store.remove(key, True)
"""
#: Puts objects that stay, then reads them until it is killed: those of a dead node fail until the master forgets it.
READ = """
import sys, time
from mooncake.store import MooncakeDistributedStore, ReplicateConfig
store, config = MooncakeDistributedStore(), ReplicateConfig()
assert store.setup("127.0.0.1", "P2PHANDSHAKE", 0, 64 << 20, "tcp", "", sys.argv[1]) == 0
config.with_hard_pin = True
for number in range(96):
    assert store.put(f"kept-{number}", bytes(16 << 10), config) == 0
print("reading", flush=True)
while True:
    for number in range(96):
        store.get(f"kept-{number}")
        time.sleep(0.001)
"""
SPIN = "import os\nos.sched_setaffinity(0, {0})\nos.nice(-15)\nwhile True: pass"


def listed(file, pattern):
    """Names in a file."""
    return set(re.findall(pattern, file.read_text(), re.M))


def test_every_alert_is_provoked_or_replayed():
    alerts = listed(RULES / "alerts.yml", r"- alert: (\w+)")
    replayed = listed(REPLAYED, r"alertname: (\w+)\n\s+exp_alerts:")
    assert alerts == PROVOKED | replayed
    assert not PROVOKED & replayed


def test_every_alert_says_what_to_do():
    for rule in (RULES / "alerts.yml").read_text().split("- alert: ")[1:]:
        assert re.search(r"severity: (page|ticket)", rule), rule
        assert re.search(r"summary: .{10}", rule) and re.search(r"runbook: .{40}", rule), rule


def test_replayed_faults_fire_and_resolve(tmp_path):
    for file in (*RULES.glob("*.yml"), REPLAYED):
        shutil.copy(file, tmp_path)
    for words in (["check", "config", "perigee.yml"], ["test", "rules", "replayed.yml"]):
        done = subprocess.run(["promtool", *words], cwd=tmp_path, capture_output=True, text=True, timeout=PROMTOOL_TIMEOUT_S)
        assert done.returncode == 0, done.stdout + done.stderr


def fires(watched, *names):
    """Wait until these alerts fire."""
    until(lambda: set(names) <= watched.firing(), f"firing {names}, only {watched.firing()}")


def resolves(watched, *names):
    """Wait until none of these alerts fires."""
    until(lambda: not set(names) & watched.firing(), f"end of {names}, still {watched.firing()}")


def pin(process, cores):
    """Bind all threads of a process to cores."""
    for thread in os.listdir(f"/proc/{process.pid}/task"):
        os.sched_setaffinity(int(thread), cores)


def test_a_port_that_goes_down(watched):
    watched.host.set("state", "1: DOWN")
    fires(watched, "PerigeeNicDown")
    watched.host.set("state", "4: ACTIVE")
    resolves(watched, "PerigeeNicDown")


def test_a_node_that_is_killed_costs_operations_until_the_master_forgets_it(watched):
    resolves(watched, "PerigeeTransferErrors", "PerigeeClientsLost")
    watched.start("reader", sys.executable, "-c", READ, f"127.0.0.1:{watched.rpc}")
    until(lambda: "reading" in watched.log("reader"), "objects to read")
    rail = watched.rails[1]
    watched.stop(f"node-{rail.name}", kill=True)
    fires(watched, "PerigeeTransferErrors")
    fires(watched, "PerigeeClientsLost")
    watched.start_node(rail)
    watched.stop("reader", kill=True)
    resolves(watched, "PerigeeTransferErrors", "PerigeeClientsLost")


def test_shards_that_share_their_core_with_greedy_programs(watched):
    nodes = [process for name, process in watched.processes.items() if name.startswith("node")]
    for process in nodes:
        pin(process, {0})
    # One client waits for one node at a time: only several keep all nodes wanting their core.
    greedy, clients = [f"spin-{number}" for number in range(3)], [f"load-{number}" for number in range(4)]
    for name in clients:
        watched.start_load(name)
        pin(watched.processes[name], range(1, os.cpu_count()))
    for name in greedy:
        watched.start(name, sys.executable, "-c", SPIN)
    fires(watched, "PerigeeShardStarved")
    for name in greedy + clients:
        watched.stop(name, kill=True)
    for process in nodes:
        pin(process, range(os.cpu_count()))
    resolves(watched, "PerigeeShardStarved")


def test_a_pool_that_is_full_of_pinned_objects_and_an_agent_that_is_killed(watched):
    master = f"127.0.0.1:{watched.rpc}"
    filling = watched.start("fill", sys.executable, "-c", FILL, master, stdin=subprocess.PIPE)
    watched.stop("agent", kill=True)
    fires(watched, "PerigeeAgentDown", "PerigeePoolFull")
    filling.stdin.close()
    watched.start_agent("--measure_costs=true")
    resolves(watched, "PerigeeAgentDown", "PerigeePoolFull")


def test_a_master_that_is_killed(watched):
    watched.stop("master", kill=True)
    fires(watched, "PerigeeMasterNotReady")
    watched.start_master()
    resolves(watched, "PerigeeMasterNotReady")
