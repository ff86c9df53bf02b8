"""Starts with few rights: what works, what is named, and what the unit and the pod really need."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from cluster import PROGRAM, ROOT, Cluster, fetch, until

UNIT = ROOT / "tools/deploy/systemd/perigee-agent.service"
POD = ROOT / "tools/deploy/kubernetes/perigee-agent.yaml"
UNPRIVILEGED = 65534
#: What each part needs, as the kernel sees it.
NEEDS = {
    "round_trips": {"bpf", "net_admin", "perfmon"},
    "tcp_events": {"bpf", "perfmon"},
    "drops": {"bpf", "perfmon"},
    "blocks": {"bpf", "perfmon"},
    "urings": {"bpf", "perfmon"},
    "tasks": {"bpf", "perfmon"},
}
#: All of them.
USUAL = {"bpf", "perfmon", "net_admin"}


@pytest.fixture
def cluster(root, tmp_path_factory):
    """A node and a client of another user, and room for an unprivileged agent."""
    with Cluster(tmp_path_factory.mktemp("rights")) as made:
        # The unprivileged user must get to the pages and to its state; pytest's folders are root's
        # alone.
        folder = Path(made.folder)
        for parent in (folder, folder.parent, folder.parent.parent):
            parent.chmod(parent.stat().st_mode | 0o011)
        (folder / "state").mkdir()
        os.chown(folder / "state", UNPRIVILEGED, UNPRIVILEGED)
        made.start_master()
        made.start_node(made.add_rail(f"rights{made.rpc % 10000}"))
        made.start_load()
        yield made


def start_unprivileged(cluster, capabilities, *flags):
    """An agent as the unit starts it: another user, these capabilities and no way to more."""
    # The program may lie where that user cannot go; an open file can be run all the same.
    program = os.open(PROGRAM, os.O_RDONLY)
    try:
        caps = ",".join(["-all", *(f"+{name}" for name in sorted(capabilities))])
        cluster.start(
            "agent", "setpriv", f"--reuid={UNPRIVILEGED}", f"--regid={UNPRIVILEGED}", "--clear-groups",
            f"--inh-caps={caps}", f"--ambient-caps={caps}", f"--bounding-set={caps}", "--no-new-privs",
            f"/proc/self/fd/{program}", "agent", f"--port={cluster.web}",
            f"--state_dir={cluster.folder / 'state'}", *flags, pass_fds=[program],
        )
    finally:
        os.close(program)
    until(lambda: fetch(f"{cluster.agent_url}/readyz"), "agent")


def states(cluster):
    """Sources by name."""
    return {source["name"]: source for source in cluster.snapshot()["sources"]}


def capability(name):
    """The kernel's name."""
    return f"CAP_{name.upper()}"


def check_reasons(cluster, held):
    """Everything that lacks rights is off and names exactly what it lacks, everywhere it is shown."""
    found = states(cluster)
    explained = fetch(f"{cluster.agent_url}/explain")
    for name, needed in NEEDS.items():
        lacking = needed - held
        # The administrator's capability includes the finer ones.
        if "sys_admin" in held:
            lacking -= {"bpf", "perfmon"}
        source = found[name]
        if not lacking:
            assert source["state"] == "on", source
            continue
        assert source["state"] == "off"
        for missing in lacking:
            assert capability(missing) in source["reason"], source
            assert capability(missing) in source["remedy"], source
        for present in USUAL - lacking:
            assert capability(present) not in source["reason"], source
        assert source["reason"] in explained and source["remedy"] in explained
        line = f"source={name} reason={source['reason']}"
        # A thread of its own writes the log.
        until(lambda line=line: line in cluster.log("agent").replace('"', ""), f"log of {name}")


def test_without_any_right_everything_that_needs_none_is_complete(cluster):
    start_unprivileged(cluster, set())
    rail = cluster.rails[0].name
    until(lambda: any(flow["device"] == rail for flow in cluster.snapshot()["flows"]), "flows")
    found = states(cluster)
    assert found["interfaces"]["state"] == found["activity"]["state"] == "on"
    check_reasons(cluster, set())
    first = cluster.metric("perigee_nic_receive_bytes_total")
    until(lambda: cluster.metric("perigee_nic_receive_bytes_total") != first, "bytes that grow")
    assert set(cluster.metric("perigee_probe_on").values()) == {0.0, 1.0}
    explained = subprocess.run(
        ["setpriv", "--bounding-set=-all", "--inh-caps=-all", PROGRAM, "agent", "--explain"],
        capture_output=True, text=True, timeout=120, env=cluster.environment,
    )
    assert explained.returncode == 0
    assert "CAP_NET_ADMIN" in explained.stdout and "AmbientCapabilities=" in explained.stdout


@pytest.mark.parametrize("missing", sorted(USUAL))
def test_each_capability_that_is_missing_is_named_where_it_matters(cluster, missing):
    held = USUAL - {missing}
    start_unprivileged(cluster, held)
    check_reasons(cluster, held)


def granted(text, pattern):
    """Capabilities that a file grants, as setpriv writes them."""
    names = re.findall(r"[A-Z_]+", re.search(pattern, text, re.M)[1])
    return {name.removeprefix("CAP_").lower() for name in names}


def test_the_unit_and_the_pod_grant_what_all_usual_probes_need_and_nothing_more():
    unit, pod = UNIT.read_text(), POD.read_text()
    assert granted(unit, r"^AmbientCapabilities=(.*)$") == USUAL
    assert granted(unit, r"^CapabilityBoundingSet=(.*)$") == USUAL
    assert granted(pod, r"add: \[(.*)\]") == USUAL
    assert "drop: [ALL]" in pod
    for name in USUAL:
        assert any(name in needed and needed <= USUAL for needed in NEEDS.values())


def test_the_pod_is_complete_and_its_arguments_are_the_agents():
    pod = yaml.safe_load(POD.read_text())
    template = pod["spec"]["template"]
    assert pod["kind"] == "DaemonSet"
    assert pod["spec"]["selector"]["matchLabels"].items() <= template["metadata"]["labels"].items()
    spec, agent = template["spec"], template["spec"]["containers"][0]
    assert spec["hostNetwork"] and spec["hostPID"]
    mounts = {mount["name"]: mount["mountPath"] for mount in agent["volumeMounts"]}
    assert mounts.keys() == {volume["name"] for volume in spec["volumes"]}
    assert "/dev/shm/perigee" in mounts.values()
    named = {port["name"] for port in agent["ports"]}
    for probe in ("livenessProbe", "readinessProbe"):
        assert agent[probe]["httpGet"]["port"] in named
    program, *words = agent["args"]
    assert program == "perigee" and f"--state_dir={mounts['state']}" in words
    explained = subprocess.run([PROGRAM, *words, "--explain"], capture_output=True, timeout=120, check=False)
    assert explained.returncode == 0, explained.stderr


def test_with_the_units_capabilities_every_usual_probe_is_attached_and_counts(cluster):
    start_unprivileged(cluster, granted(UNIT.read_text(), r"^AmbientCapabilities=(.*)$"))
    check_reasons(cluster, USUAL)
    rail = cluster.rails[0].name

    def seen():
        snapshot = cluster.snapshot()
        nics = {nic["device"]: nic for nic in snapshot["nics"]}
        threads = {task["thread"] for task in snapshot["tasks"]}
        return nics[rail]["probed_drops"] is not None and "perigee-data" in threads and snapshot["tcp"]

    until(seen, "numbers of probes")


def test_slow_batches_need_no_right_at_all(cluster):
    start_unprivileged(cluster, set(), "--slow_ms=0")
    assert states(cluster)["batches"]["state"] == "on"
    batch = until(lambda: cluster.snapshot()["slow"], "batch")[0]
    assert batch["bytes"] > 0 and batch["operations"] > 0 and batch["program"]
    links = {(link["device"], link["peer"]) for link in cluster.snapshot()["links"]}
    assert (batch["device"], batch["peer"]) in links, "batches and links bear the same names"
    until(lambda: cluster.metric("perigee_batch_bytes_total"), "batches by NIC and peer")


def measures_costs(cluster):
    """Whether the agent lets the kernel measure probes, which every probe of the host pays for."""
    for file in Path(f"/proc/{cluster.processes['agent'].pid}/fd").iterdir():
        try:
            if os.readlink(file) == "anon_inode:bpf-stats":
                return True
        except FileNotFoundError:
            continue  # a connection that was closed just now
    return False


def test_packets_are_counted_on_request_only_and_nothing_is_attached_for_who_looks(cluster, live):
    start_unprivileged(cluster, USUAL)
    found = states(cluster)["nics"]
    assert found["state"] == "unused" and "--packets" in found["remedy"], found
    assert not any("nics" in series for series in cluster.metric("perigee_probe_on"))
    assert not cluster.metric("perigee_probed_bytes_total")
    assert not measures_costs(cluster)
    until(lambda: measures_costs(live), "costs of the agent that was asked for them")


def groups():
    """Where control groups of version 2 are mounted."""
    mounts = (line.split() for line in Path("/proc/mounts").read_text().splitlines())
    return next((Path(words[1]) for words in mounts if words[2] == "cgroup2"), None)


@pytest.fixture
def pod(cluster):
    """Two control groups side by side, and the node in one of them."""
    top = groups()
    assert top is not None, "no control groups of version 2 are mounted"
    pod = top / f"perigee-test-{cluster.rpc}"
    for group in (pod / "agent", pod / "node"):
        group.mkdir(parents=True)
    name = next(name for name in cluster.processes if name.startswith("node"))
    (pod / "node/cgroup.procs").write_text(str(cluster.processes[name].pid))
    try:
        yield pod
    finally:
        for name in list(cluster.processes):
            cluster.stop(name)
        for group in (pod / "agent", pod / "node", pod):
            until(lambda group=group: group.rmdir() is None, f"empty group {group}")


def round_trips(cluster):
    """How many round trips were counted."""
    return sum(cluster.metric("perigee_tcp_round_trip_seconds_count").values())


def test_in_a_cgroup_namespace_round_trips_count_and_hidden_processes_are_listed(cluster, pod):
    enter = f'echo $$ > {pod}/agent/cgroup.procs && exec unshare --cgroup "$@"'
    cluster.start_agent(prefix=["sh", "-c", enter, "sh"])
    pid = cluster.processes["agent"].pid
    assert Path(f"/proc/{pid}/ns/cgroup").readlink() != Path("/proc/self/ns/cgroup").readlink()
    # Only connections that are opened now are seen.
    cluster.start_load(name="load-2")
    until(lambda: round_trips(cluster) > 100, "round trips")
    assert states(cluster)["round_trips"]["state"] == "on"
    attached = subprocess.run(
        ["bpftool", "cgroup", "show", groups()], capture_output=True, text=True, timeout=120
    ).stdout
    assert "sock_ops" in attached, attached
    cluster.stop("agent")
    # As in a container without the host's groups: its own are all that it sees.
    alone = (
        f'echo $$ > {pod}/agent/cgroup.procs && exec unshare --cgroup --mount sh -c '
        f'\'umount -l {groups()} && mount -t cgroup2 none {groups()} && exec "$@"\' sh "$@"'
    )
    cluster.start_agent(prefix=["sh", "-c", alone, "sh"])
    hidden = states(cluster)["round_trips"]
    assert hidden["state"] == "off" and "outside of what is mounted" in hidden["reason"], hidden
    assert "/sys/fs/cgroup" in hidden["remedy"]
    assert hidden["reason"] in fetch(f"{cluster.agent_url}/readyz")
    assert "source=round_trips" in cluster.log("agent")


def test_systemd_accepts_the_unit_and_finds_it_hardened(tmp_path):
    if shutil.which("systemd-analyze") is None:
        pytest.skip("no systemd-analyze on this host")
    copy = tmp_path / UNIT.name
    copy.write_text(UNIT.read_text().replace("ExecStart=perigee ", f"ExecStart={PROGRAM} "))
    verified = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", copy], capture_output=True, text=True, timeout=120
    )
    assert verified.returncode == 0 and verified.stderr == "", verified.stderr
    judged = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--no-pager", "--threshold=25", copy],
        capture_output=True, text=True, timeout=120,
    )
    assert judged.returncode == 0, judged.stdout + judged.stderr
    assert re.search(r"Overall exposure level .* OK", judged.stdout), judged.stdout
