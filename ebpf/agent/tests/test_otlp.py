"""What an agent sends to a collector of OpenTelemetry, and what a collector does to it."""

from __future__ import annotations

import re
import sys
from secrets import token_hex

import pytest
from cluster import Cluster, fetch, until
from collector import Collector, attributes

#: Puts and gets under a traceparent until it is killed.
TRACED = """
import itertools, sys, time
from mooncake.store import MooncakeDistributedStore
from perigee_mooncake import trace
store = MooncakeDistributedStore()
assert store.setup("127.0.0.1", "P2PHANDSHAKE", 0, 64 << 20, "tcp", "", sys.argv[1]) == 0
with trace.use(sys.argv[2]):
    for step in itertools.count():
        assert store.put(f"traced-{step}", bytes(4096)) == 0
        assert store.get(f"traced-{step}") == bytes(4096)
        time.sleep(0.2)
"""


@pytest.fixture(scope="module")
def collector():
    with Collector() as made:
        yield made


@pytest.fixture(scope="module")
def traced(root, collector, tmp_path_factory):
    """A cluster whose client works under a traceparent, and an agent that finds its collector in the variables."""
    with Cluster(tmp_path_factory.mktemp("otlp")) as cluster:
        cluster.trace, cluster.caller = token_hex(16), token_hex(8)
        cluster.start_master()
        cluster.start_node()
        cluster.environment |= {
            "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
            "OTEL_EXPORTER_OTLP_HEADERS": "api-key=a%20key",
            "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment=test",
        }
        cluster.start_agent("--ebpf=false")
        start_traced(cluster)
        yield cluster


def start_traced(cluster):
    parent = f"00-{cluster.trace}-{cluster.caller}-01"
    cluster.start("traced", sys.executable, "-c", TRACED, f"127.0.0.1:{cluster.rpc}", parent)


def of_trace(collector, trace):
    return [(process, span) for process, span in collector.spans if span.trace_id.hex() == trace]


def test_spans_hang_in_the_trace_of_the_program_that_called(traced, collector):
    def whole_get():
        """The spans of a get that has all of its parts."""
        found = of_trace(collector, traced.trace)
        for _, call in found:
            below = [(process, span) for process, span in found if span.parent_span_id == call.span_id]
            kinds = {(process["service.name"], span.name) for process, span in below}
            names = {name for _, name in kinds}
            if call.name == "get" and len({program for program, _ in kinds}) > 1 and {"GetReplicas", "read"} <= names:
                return call, below, found
        return None

    call, below, found = until(whole_get, "a get with what the master and the node did for it")
    assert call.parent_span_id.hex() == traced.caller
    answered = [span.name for process, span in below if span.kind == span.SPAN_KIND_SERVER]
    assert {"GetReplicas", "read"} <= set(answered), "the master and the node answered"
    assert call.end_time_unix_nano > call.start_time_unix_nano > 0
    assert attributes(call)["perigee.key"].startswith("traced-")
    known = {span.span_id for _, span in found} | {bytes.fromhex(traced.caller)}
    calls = [span for _, span in found if span.name in ("get", "put")]
    assert all(span.parent_span_id in known for span in calls)
    assert len({span.span_id for _, span in found}) == len(found), "each span came once"
    for process, _ in found:
        assert process["deployment.environment"] == "test" and process["process.pid"] > 0
    assert collector.headers[0]["api-key"] == "a key"
    assert {headers["content-encoding"] for headers in collector.headers} == {"gzip"}


def test_metrics_have_the_names_and_kinds_of_the_scrape_and_exemplars(traced, collector):
    until(lambda: "perigee_flow_latency_seconds" in collector.metrics, "metrics of the traffic")
    text = fetch(f"{traced.agent_url}/metrics")
    kinds = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.M))
    sent = {name: metric.WhichOneof("data") for name, metric in collector.metrics.items() if name}
    of_scrape = {"sum": "counter", "gauge": "gauge", "histogram": "histogram"}
    assert {name: of_scrape[kind] for name, kind in sent.items()}.items() <= kinds.items()
    filled = {re.sub(r"_(bucket|sum|count)$", "", name) for name in re.findall(r"^(perigee\w+)[{ ]", text, re.M)}
    assert set(sent) >= {name for name in filled if name in kinds and "{" not in name} - {"perigee_batch_latency_seconds"}
    assert collector.metrics[""]["service.name"] == "perigee-agent"
    assert collector.metrics[""]["service.instance.id"] == collector.metrics[""]["host.name"]

    def exemplar():
        points = collector.metrics["perigee_flow_latency_seconds"].histogram.data_points
        return [one for point in points for one in point.exemplars if one.trace_id.hex() == traced.trace]

    (one, *_) = until(exemplar, "an exemplar of the trace")
    assert 0 < one.as_double < 60 and one.time_unix_nano > 0


def test_what_a_collector_does_not_want_or_cannot_take_is_counted_and_sent_again(traced, collector):
    name = "perigee_agent_exported_spans_total"
    until(lambda: traced.metric(name)['{result="sent"}'] > 0, "spans that were sent")
    try:
        collector.status = 503
        log = "does not take what is exported"
        until(lambda: log in traced.log("agent"), "a word in the log")
        before = len(collector.spans)
    finally:
        collector.status = 200
    until(lambda: len(collector.spans) > before + 20, "what waited, after the pause")
    assert traced.metric(name)['{result="refused"}'] == 0
    try:
        collector.status = 400
        until(lambda: traced.metric(name)['{result="refused"}'] > 0, "spans that were refused")
    finally:
        collector.status = 200
    assert traced.metric(name)['{result="dropped"}'] == 0


@pytest.mark.parametrize("endpoint", ["http://127.0.0.1:4317", "collector:4318", "unix:///run/collector"])
def test_a_variable_for_others_keeps_no_agent_from_starting(root, tmp_path, endpoint):
    with Cluster(tmp_path) as cluster:
        cluster.environment |= {"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint}
        cluster.start_agent("--ebpf=false")
        warnings = [line for line in cluster.log("agent").splitlines() if "WARN" in line and "OTEL_" in line]
        assert len(warnings) == 1 and endpoint in warnings[0], cluster.log("agent")
