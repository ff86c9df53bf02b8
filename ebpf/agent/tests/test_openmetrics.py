"""What masters, nodes and agents serve as OpenMetrics, read by a parser that is not ours."""

from __future__ import annotations

import urllib.request
from secrets import token_hex

import pytest
from cluster import Cluster, fetch, free_port, until
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from test_otlp import start_traced

#: What Prometheus sends.
ACCEPT = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"


@pytest.fixture(scope="module")
def served(root, tmp_path_factory):
    """URLs of a master, a node and an agent, whose client works under a traceparent."""
    with Cluster(tmp_path_factory.mktemp("openmetrics")) as cluster:
        cluster.trace, cluster.caller, node = token_hex(16), token_hex(8), free_port()
        cluster.start_master()
        cluster.start_node(flags=["--enable_http_server=true", f"--http_port={node}"])
        cluster.start_agent("--ebpf=false")
        start_traced(cluster)
        cluster.urls = {
            "master": f"http://127.0.0.1:{cluster.admin}", "node": f"http://127.0.0.1:{node}", "agent": cluster.agent_url,
        }
        yield cluster


def openmetrics(url):
    """Families by name."""
    request = urllib.request.Request(f"{url}/metrics", headers={"accept": ACCEPT})
    with urllib.request.urlopen(request, timeout=10) as answer:
        assert answer.headers["content-type"].startswith("application/openmetrics-text")
        return {family.name: family for family in text_string_to_metric_families(answer.read().decode())}


def exemplars(family):
    """Values and labels of what stands behind buckets."""
    return [(sample, sample.exemplar) for sample in family.samples if sample.exemplar]


@pytest.mark.parametrize("program", ["master", "node", "agent"])
def test_a_strict_parser_reads_it_and_finds_what_the_plain_text_has(served, program):
    families = openmetrics(served.urls[program])
    plain = fetch(f"{served.urls[program]}/metrics")
    samples = {sample.name for family in families.values() for sample in family.samples}
    names = {line.split("{")[0].split(" ")[0] for line in plain.splitlines() if not line.startswith("#")}
    assert names == samples
    assert " # {" not in plain and "# EOF" not in plain


@pytest.mark.parametrize(
    ("program", "name"),
    [
        ("master", "perigee_rpc_duration_seconds"), ("agent", "perigee_flow_latency_seconds"),
        ("agent", "perigee_batch_latency_seconds"),
    ],
)
def test_kept_requests_stand_behind_the_buckets_that_hold_their_times(served, program, name):
    def of_the_trace():
        found = exemplars(openmetrics(served.urls[program])[name])
        return [one for one in found if one[1].labels == {"trace_id": served.trace}]

    found = until(of_the_trace, f"exemplar of {name}")
    for sample, exemplar in found:
        assert sample.name == f"{name}_bucket" and exemplar.value <= float(sample.labels["le"])
        assert float(exemplar.timestamp) > 1.7e9
