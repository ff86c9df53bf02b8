"""`perigee check` between hosts that are network namespaces, with wires that are made thin, short or lossy."""

from __future__ import annotations

import json

import pytest
from cluster import PROGRAM
from hosts import Hosts

#: Short loads: what is measured are faults, not figures. One pair at a time: all hosts share this machine's cores.
QUICK = ("--load=200ms", "--streams=1", "--probes=2000", "--at_once=1")


@pytest.fixture
def hosts(root):
    with Hosts(3) as made:
        made.serve()
        yield made


def check(hosts, *more, baseline="none"):
    """The document and the exit status of a check from the first host of all others."""
    others = [hosts.address(name) for name in hosts.names[1:]]
    done = hosts.call(hosts.names[0], PROGRAM, "check", *others, *QUICK, f"--baseline={baseline}", "--format=json", *more)
    assert done.stdout, done.stderr
    return json.loads(done.stdout), done.returncode


def found(document, kind):
    return {(one["from"]["host"], one["from"]["nic"], one["to"]["host"]) for one in document["findings"] if one["kind"] == kind}


def culprits(document):
    return [(one["kind"], one["name"]) for one in document["culprits"]]


def test_all_pairs_are_measured_over_all_rails_both_ways(hosts):
    document, _ = check(hosts)
    links = {(one["from"]["host"], one["from"]["nic"], one["to"]["host"], one["to"]["nic"]) for one in document["links"]}
    assert len(links) == 9 and all(near == far for _, near, _, far in links), links
    for link in document["links"]:
        readings = link["readings"]
        assert readings["there"]["bytes_per_second"] > 0 and readings["back"]["bytes_per_second"] > 0, link
        assert readings["round_trip_ns"] > 0 and readings["frame_bytes"] == 1500, link
        assert (readings["probes"], readings["lost_there"], readings["lost_back"]) == (2000, 0, 0), link
    failures = [one for one in document["findings"] if one["kind"] in ("loss", "frame_size", "unreachable")]
    assert failures == []


def test_a_thin_nic_is_named_and_a_baseline_tells_how_much_is_left(hosts, tmp_path):
    file = tmp_path / "check.json"
    check(hosts, "--renew", baseline=file)
    hosts.shape("node1", "rail1", "40mbit")
    document, status = check(hosts, baseline=file)
    slow = found(document, "bandwidth")
    assert {("node1", "rail1", "node0"), ("node1", "rail1", "node2")} <= slow, document["findings"]
    assert ("nic", "node1/rail1") in culprits(document), document["culprits"]
    assert status == 3
    ratios = [one["ratio"] for one in document["findings"] if one["from"] == {"host": "node1", "nic": "rail1"}]
    assert all(ratio < 0.5 for ratio in ratios)
    # The doctor knows what the last check has found, also where nothing is measured.
    doctor = hosts.call("node0", PROGRAM, "doctor", "--only=link_baseline", f"--baseline={file}", "--format=json")
    findings = json.loads(doctor.stdout)["checks"][0]["findings"]
    assert any("node1/rail1" in one["subject"] and "of its baseline" in one["message"] for one in findings), findings


def test_frames_that_do_not_pass_are_named(hosts):
    hosts.frames("node2", "rail0", 1400)
    document, status = check(hosts, "--load=0ms")
    assert found(document, "frame_size") == {("node0", "rail0", "node2"), ("node1", "rail0", "node2")}
    assert culprits(document) == [("nic", "node2/rail0")]
    assert status == 1


def test_a_lossy_nic_is_named(hosts):
    hosts.lose("node2", "rail1", 10)
    document, status = check(hosts, "--load=0ms", "--probes=4000")
    assert found(document, "loss") == {("node0", "rail1", "node2"), ("node1", "rail1", "node2")}
    assert culprits(document) == [("nic", "node2/rail1")] and status == 1


def test_a_host_that_is_not_there_and_a_wire_that_is_cut_are_failures(hosts):
    hosts.cut("node1", "rail0")
    others = [hosts.address(name) for name in hosts.names[1:]]
    done = hosts.call("node0", PROGRAM, "check", *others, "198.19.2.99", *QUICK, "--load=0ms", "--baseline=none")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "GONE  198.19.2.99:" in done.stdout and "perigee check --serve" in done.stdout
    assert "At fault: nic node1/rail0" in done.stdout, done.stdout
    assert all(len(line) <= 80 for line in done.stdout.splitlines()), done.stdout


def test_a_host_that_does_not_allow_it_is_not_measured(root):
    with Hosts(2) as hosts:
        done = hosts.call("node0", PROGRAM, "check", hosts.address("node1"), *QUICK, "--baseline=none")
        assert done.returncode == 69 and "GONE" in done.stdout, done.stdout
