"""The agent's life: what it leaves attached when it dies, what its counters do when it starts again."""

from __future__ import annotations

import json
import re
import socket
import subprocess
from pathlib import Path

import pytest
from cluster import PROGRAM, Cluster, fetch, until

KINDS = {"prog": "prog_id", "link": "link_id", "map": "map_id"}


@pytest.fixture
def cluster(root, tmp_path):
    """A master, a node behind a rail, and a client at work."""
    with Cluster(tmp_path) as made:
        made.start_master()
        made.start_node(made.add_rail(f"life{made.rpc % 10000}"))
        made.start_load()
        yield made


def held(pid):
    """Numbers of the programs, links and maps that a process keeps in the kernel."""
    found = {kind: set() for kind in KINDS}
    for file in Path(f"/proc/{pid}/fdinfo").iterdir():
        try:
            text = file.read_text()
        except FileNotFoundError:
            continue
        for kind, field in KINDS.items():
            found[kind] |= {int(number) for number in re.findall(rf"^{field}:\s*(\d+)", text, re.M)}
    return found


def bpftool(*words):
    """What bpftool says."""
    done = subprocess.run(["bpftool", "-j", *words], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout or "[]")


def present():
    """Numbers of all programs, links and maps in the kernel."""
    return {kind: {item["id"] for item in bpftool(kind, "show")} for kind in KINDS}


def attached_elsewhere(programs):
    """Which of these programs hang on interfaces or control groups."""
    network = json.dumps(bpftool("net", "show"))
    groups = json.dumps(bpftool("cgroup", "tree"))
    seen = {int(number) for number in re.findall(r'"(?:prog_)?id": ?(\d+)', network + groups)}
    return programs & seen


@pytest.mark.parametrize("kill", [True, False], ids=["killed", "asked to stop"])
def test_an_agent_that_is_gone_leaves_nothing_attached(cluster, kill):
    pinned = sorted(Path("/sys/fs/bpf").rglob("*")) if Path("/sys/fs/bpf").is_dir() else []
    cluster.start_agent("--packets=true")

    def holds_all():
        ours = held(cluster.processes["agent"].pid)
        on = {source["name"] for source in cluster.snapshot()["sources"] if source["state"] == "on"}
        watched = {"nics", "round_trips", "tcp_events", "drops", "blocks", "urings", "tasks"} <= on
        return watched and len(ours["link"]) >= 12 and ours

    ours = until(holds_all, "agent with all probes attached")
    there = present()
    assert all(ours[kind] <= there[kind] for kind in KINDS), "bpftool sees what the agent holds"
    cluster.stop("agent", kill=kill)

    def left():
        now = present()
        return {kind: ours[kind] & now[kind] for kind in KINDS}

    until(lambda: not any(left().values()), "kernel without the agent's programs, links and maps")
    assert attached_elsewhere(ours["prog"]) == set()
    if Path("/sys/fs/bpf").is_dir():
        assert sorted(Path("/sys/fs/bpf").rglob("*")) == pinned


def counters(cluster):
    """Everything that Prometheus takes for a counter."""
    lines = fetch(f"{cluster.agent_url}/metrics").splitlines()
    types = dict(line.split()[2:4] for line in lines if line.startswith("# TYPE "))
    found = {}
    for line in lines:
        if line.startswith("#"):
            continue
        series, value = line.rsplit(" ", 1)
        name = series.split("{")[0]
        family = re.sub(r"_(bucket|sum|count)$", "", name)
        if types.get(name) == "counter" or types.get(family) == "histogram":
            found[series] = float(value)
    return found


@pytest.mark.parametrize("kill", [True, False], ids=["killed", "asked to stop"])
def test_no_counter_falls_when_the_agent_starts_again(cluster, kill):
    cluster.start_agent("--measure_costs=true", "--packets=true")
    rail = cluster.rails[0].name
    moved = f'perigee_probed_bytes_total{{device="{rail}",direction="transmit"}}'
    until(lambda: counters(cluster)[moved] > 10e6, "bytes on the rail")
    for _ in range(2):
        before = counters(cluster)
        cluster.stop("agent", kill=kill)
        cluster.start_agent("--measure_costs=true", "--packets=true")
        until(lambda: counters(cluster)[moved] > before[moved], "bytes that go on")
        after = counters(cluster)
        assert len(before) > 100
        # Threads and loop devices of others come and go; what has not happened again yet is shown all the same.
        lasting = {name for name in before if not re.match(r"perigee_(task|uring|nic|probed|block)_", name)}
        assert lasting - after.keys() == set()
        common = before.keys() & after.keys()
        assert {name: (before[name], after[name]) for name in common if after[name] < before[name]} == {}


def series(cluster, name, **labels):
    """The one value of a family with these labels, or 0."""
    wanted = [f'{label}="{value}"' for label, value in labels.items()]
    values = cluster.metric(name).items()
    return sum(value for text, value in values if all(part in text for part in wanted))


def test_a_program_that_is_started_again_is_counted_on_at_once(cluster):
    cluster.start_agent()
    thread = {"program": "perigee", "thread": "perigee-data"}

    def counted():
        return series(cluster, "perigee_task_off_cpu_seconds_count", **thread)

    before = until(lambda: (found := counted()) > 2000 and found, "sleeps of the first life")
    rail = cluster.rails[0]
    cluster.stop(f"node-{rail.name}", kill=True)
    until(lambda: not counted(), "end of the first life")
    cluster.start_node(rail)
    # A new life has counted little yet, and yet it is seen.
    first = until(lambda: (found := counted()) > before and found, "sleeps of the second life")
    until(lambda: counted() > first, "growing count")
    text = fetch(f"{cluster.agent_url}/metrics")
    family = "perigee_task_off_cpu_seconds"
    for labels in {re.search(r"\{(.*),le=", line)[1] for line in text.splitlines() if line.startswith(f"{family}_bucket")}:
        last = re.search(rf"^{family}_bucket\{{{re.escape(labels)},le=\"\+Inf\"\}} (\d+)$", text, re.M)[1]
        assert last == re.search(rf"^{family}_count\{{{re.escape(labels)}\}} (\d+)$", text, re.M)[1]


def test_recreated_nics_go_on_and_removed_ones_are_forgotten(cluster):
    cluster.start_agent("--packets=true")
    name = f"again{cluster.rpc % 10000}"

    def life(first):
        rail = cluster.add_rail(name)
        device = {"device": name, "direction": "transmit"}
        until(lambda: series(cluster, "perigee_nic_up", device=name), "NIC")
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sent = 0

            def moved():
                nonlocal sent
                sent += sender.sendto(bytes(1000), (rail.there, 9))
                return series(cluster, "perigee_probed_bytes_total", **device) > first + 20_000

            until(moved, "bytes on the NIC")
        total = series(cluster, "perigee_probed_bytes_total", **device)
        rail.down()
        cluster.rails.remove(rail)
        until(lambda: not series(cluster, "perigee_nic_up", device=name), "end of the NIC")
        return total

    first = life(0)
    assert life(first) > first
    kept = json.loads((cluster.folder / "state/counters.json").read_text())["value"]
    assert sum(name in series for series in kept) <= 4


def test_what_processes_had_counted_is_not_counted_again_by_the_next_agent(cluster):
    cluster.start_agent()
    until(lambda: cluster.metric("perigee_flow_bytes_total"), "flows")
    cluster.stop("load")

    def at_rest():
        first = cluster.metric("perigee_flow_bytes_total")
        taken = cluster.snapshot()["taken_ms"]
        until(lambda: cluster.snapshot()["taken_ms"] > taken, "next reading")
        return cluster.metric("perigee_flow_bytes_total") == first and first

    before = until(at_rest, "flows at rest")
    for kill in (False, True):
        cluster.stop("agent", kill=kill)
        cluster.start_agent()
        assert cluster.metric("perigee_flow_bytes_total") == before


def test_a_port_that_is_taken_is_named_with_what_to_do(cluster):
    cluster.start_agent("--ebpf=false")
    words = [PROGRAM, "agent", f"--port={cluster.web}", "--state_dir="]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert done.returncode not in (0, 101), done.stderr
    assert f"127.0.0.1:{cluster.web}" in done.stderr and "choose another address or port" in done.stderr
    assert fetch(f"{cluster.agent_url}/livez") == "ok"


def test_the_history_goes_on_over_a_kill_and_leaves_the_time_between_out(cluster):
    cluster.start_agent()

    def recorded():
        return json.loads(fetch(f"{cluster.agent_url}/history.json"))["snapshots"]

    before = until(lambda: (found := recorded()) and len(found) > 3 and found, "history")
    cluster.stop("agent", kill=True)
    cluster.start_agent()
    after = until(lambda: (found := recorded()) and len(found) > len(before) + 2 and found, "history that goes on")
    times = [snapshot["taken_ms"] for snapshot in after]
    assert times == sorted(times) and {one["taken_ms"] for one in before[:-1]} <= set(times)
    assert all(snapshot["schema"] == 1 for snapshot in after)
