"""Agents of several hosts report to a master, which names the one part of the cluster that is at fault."""

from __future__ import annotations

import json
import re

import pytest
from cluster import PROGRAM, until
from hosts import RAILS, Hosts

RATE = 40
PER_MILLE = 50
#: A baseline of the agents, and what the verdict waits for other agents.
NAMED_S = 180


@pytest.fixture
def hosts(root):
    with Hosts(3) as made:
        # The wire that loses later is a relay from the beginning: a NIC that comes and goes is another fault.
        made.lose("node1", "rail1", 0)
        master = ("master", "--rpc_port=50051", "--metrics_port=9003", "--rpc_address=0.0.0.0")
        made.start("node0", PROGRAM, *master)
        until(lambda: ask(made, "readyz") == "ready", "master")
        for name in made.names:
            made.start(name, PROGRAM, "agent", "--state_dir=", "--ebpf=false", f"--report_to={made.address('node0')}")
        yield made


def ask(hosts, path):
    """What the master answers to a client on its own host."""
    script = f"import urllib.request as u; print(u.urlopen('http://127.0.0.1:9003/{path}', timeout=9).read().decode(), end='')"
    return hosts.call("node0", "python3", "-c", script).stdout


def verdict(hosts):
    return json.loads(ask(hosts, "api/v1/cluster/verdict"))


def send(hosts):
    """Each host writes to each other one over each rail, a block at a time."""
    targets = {}
    for place, rail in enumerate(RAILS):
        for name in hosts.names:
            words = ("bench", "nic", f"--name={hosts.address(name, place)}", "--transport=tcp", "--buffer=1MiB")
            _, log = hosts.start(name, PROGRAM, *words, "--role=target"), hosts.processes[-1][1]
            targets[name, rail] = (words, log)
    peers = {}
    for (name, rail), (_, log) in targets.items():
        peers[name, rail] = until(lambda log=log: re.search(r"Target ready: .*?(\S+)\n", open(log).read()), "target")[1]
    for (name, rail), (words, _) in targets.items():
        for other in hosts.names:
            if other != name:
                load = ("--operation=write", "--size=4KiB", f"--rate={RATE}", "--duration=24h")
                hosts.start(name, PROGRAM, *words, "--role=initiator", f"--peer={peers[other, rail]}", *load)


def culprits(hosts):
    return [(one["kind"], one["name"]) for one in verdict(hosts)["culprits"]]


def test_a_nic_whose_wire_loses_is_named_for_the_whole_cluster_and_nothing_else(hosts):
    send(hosts)
    pairs = len(hosts.names) * (len(hosts.names) - 1) * len(RAILS)
    until(lambda: len([link for link in verdict(hosts)["links"] if link["to"]["nic"]]) >= pairs, "links of all hosts")
    assert [host["host"] for host in verdict(hosts)["hosts"]] == hosts.names
    hosts.lose("node1", "rail1", PER_MILLE)
    found = until(lambda: culprits(hosts), "culprit", NAMED_S)
    assert found == [("nic", "node1/rail1")], verdict(hosts)
    shown = hosts.call("node2", PROGRAM, "top", f"--cluster={hosts.address('node0')}", "--once").stdout
    assert re.search(r"SLOW nic node1/rail1, \d of its \d links", shown), shown
    assert re.search(r"^node2/rail1 .*!", shown, re.MULTILINE), shown
    assert 'perigee_cluster_culprit{kind="nic",name="node1/rail1"} 1' in ask(hosts, "metrics")
    hosts.lose("node1", "rail1", 0)
    until(lambda: not culprits(hosts), "end of it", NAMED_S)


def test_a_master_that_is_away_is_said_once_and_reported_to_when_it_is_back(hosts):
    until(lambda: len(verdict(hosts)["hosts"]) == len(hosts.names), "reports")
    master = hosts.processes[1][0]
    master.kill()
    agent = hosts.processes[-1][1]
    until(lambda: "does not take reports" in open(agent).read(), "line in the log")
    hosts.start("node0", PROGRAM, "master", "--rpc_port=50051", "--metrics_port=9003", "--rpc_address=0.0.0.0")
    until(lambda: len(verdict(hosts)["hosts"]) == len(hosts.names), "reports again")
    assert open(agent).read().count("does not take reports") == 1
