"""Processes in namespaces of their own, as every pod has: who they are, whose NICs they use, and what stays hidden."""

from __future__ import annotations

from pathlib import Path

import pytest
from cluster import PROGRAM, Cluster, fetch, until

#: A PID namespace that ends with this command.
APART = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")


@pytest.fixture
def cluster(root, tmp_path):
    """A master and a NIC to a network namespace."""
    with Cluster(tmp_path) as made:
        made.start_master()
        made.add_rail(f"space{made.rpc % 10000}")
        yield made


def source(cluster, name):
    """A row of the table."""
    return next(row for row in cluster.snapshot()["sources"] if row["name"] == name)


def test_a_node_in_a_pod_is_watched_with_its_own_nics(cluster):
    rail = cluster.rails[0]
    pod = cluster.start(
        "pod", "ip", "netns", "exec", rail.space, *APART, PROGRAM, "node", "--port=0",
        f"--master_server_address={rail.here}:{cluster.rpc}", f"--host={rail.there}", "--global_segment_size=256MB",
    )
    until(cluster.segments, "segment")
    # Both programs before it replace or fork themselves: the node is the only child.
    node = int(Path(f"/proc/{pod.pid}/task/{pod.pid}/children").read_text())
    cluster.start_agent()
    found = until(lambda: cluster.snapshot()["processes"], "a node that has moved nothing")
    assert [process["pid"] for process in found] == [node]
    assert source(cluster, "threads")["state"] == "on"
    cluster.start_load()
    device = f"netns:{rail.name}-far"

    def flows():
        return {flow["device"] for flow in cluster.snapshot()["flows"] if flow["route"] == "tcp"}

    until(lambda: {device, rail.name} <= flows(), "flows of both sides")
    assert f"{rail.name}-far" not in flows()
    threads = {task["thread"] for task in cluster.snapshot()["tasks"]}
    assert "perigee-data" in threads
    cluster.stop("pod", kill=True)


def test_an_agent_that_does_not_see_the_hosts_processes_says_so_and_what_to_change(cluster):
    cluster.start_node()
    cluster.start_agent(prefix=APART)
    row = until(lambda: source(cluster, "threads"), "table")
    assert row["state"] == "off" and "PID namespace" in row["reason"] and "hostPID: true" in row["remedy"]
    assert source(cluster, "activity")["state"] == "on"
    for name in ("tasks", "urings"):
        row = source(cluster, name)
        assert row["state"] == "off" and "hostPID: true" in row["remedy"], row
    assert cluster.snapshot()["processes"] == []
    assert "hostPID: true" in fetch(f"{cluster.agent_url}/explain")
    cluster.stop("agent", kill=True)
