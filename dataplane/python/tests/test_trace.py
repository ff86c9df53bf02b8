"""Calls under a `traceparent` are found by `perigee trace`; what is none is no error."""

import json
import subprocess
import sys
import types

import pytest
from conftest import START_TIMEOUT_S, Process, free_ports, listens, program, wait_until
from engine_peer import HOST, PART_BYTES, PEER_TO_PEER, Memory, Peer

from mooncake.engine import TransferEngine
from perigee_mooncake import trace

PARENT = "00f067aa0ba902b7"


def traceparent(trace_id, flags="01"):
    return f"00-{trace_id}-{PARENT}-{flags}"


@pytest.fixture
def agent(tmp_path):
    """Address of an agent of this host."""
    (port,) = free_ports(1)
    flags = [f"--port={port}", "--ebpf=false", "--state_dir="]
    process = Process([program("perigee"), "agent", *flags], tmp_path / "agent.log")
    try:
        wait_until(lambda: process.alive() and listens(port), START_TIMEOUT_S, "agent start")
        yield f"127.0.0.1:{port}"
    finally:
        process.stop()


def spans_of(agent, trace_id):
    command = [program("perigee"), "trace", trace_id, f"--agent={agent}", "--format=json"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return json.loads(ended.stdout)["spans"] if ended.returncode == 0 else []


def found_call(agent, trace_id, call):
    """The call span of a request; more calls are made until an agent was near."""
    found = []

    def is_found():
        call()
        found.extend(span for span in spans_of(agent, trace_id) if span["kind"] == "call")
        return bool(found)

    wait_until(is_found, START_TIMEOUT_S, "the call is found")
    return found[-1]


@pytest.mark.cluster
def test_a_call_within_use_is_found_by_its_traceparent(store, agent):
    assert store.put("traced", b"x" * 4096) == 0
    trace_id = "5bf92f3577b34da6a3ce929d0e0e4736"

    def get():
        with trace.use(traceparent(trace_id)):
            assert store.get("traced") == b"x" * 4096

    call = found_call(agent, trace_id, get)
    assert (call["name"], call["key"], call["bytes"]) == ("get", "traced", 4096)
    assert call["parent"] == PARENT
    assert trace.current() is None


@pytest.mark.cluster
def test_the_current_span_of_opentelemetry_is_taken_where_it_is_loaded(store, agent, monkeypatch):
    trace_id = "6bf92f3577b34da6a3ce929d0e0e4736"
    context = types.SimpleNamespace(
        is_valid=True, trace_id=int(trace_id, 16), span_id=int(PARENT, 16), trace_flags=1
    )
    api = types.ModuleType("opentelemetry.trace")
    api.get_current_span = lambda: types.SimpleNamespace(get_span_context=lambda: context)
    monkeypatch.setitem(sys.modules, "opentelemetry.trace", api)
    assert trace.current() == traceparent(trace_id)
    call = found_call(agent, trace_id, lambda: store.is_exist("traced"))
    assert (call["name"], call["parent"]) == ("exist", PARENT)
    context.is_valid = False
    assert trace.current() is None


@pytest.mark.cluster
@pytest.mark.parametrize("wrong", ["", "00-zz", "x" * 100_000, "00-" + "0" * 32 + "-" + "0" * 16 + "-01", None])
def test_what_is_no_traceparent_is_none(store, wrong):
    assert store.put("plain", b"y") == 0
    with trace.use(wrong):
        assert store.get("plain") == b"y"


def test_a_batch_of_an_engine_is_found_by_its_traceparent(agent, tmp_path):
    peer, memory, engine = Peer(tmp_path / "peer.log"), Memory(), TransferEngine()
    trace_id = "7bf92f3577b34da6a3ce929d0e0e4736"

    def write():
        with trace.use(traceparent(trace_id)):
            written = engine.transfer_sync_write(
                peer.session, memory.registered, peer.address, 4096
            )
            assert written == 0

    try:
        assert engine.initialize(HOST, PEER_TO_PEER, "tcp", "") == 0
        assert engine.register_memory(memory.registered, PART_BYTES) == 0
        call = found_call(agent, trace_id, write)
        assert (call["name"], call["key"], call["parent"]) == ("transfer", peer.session, PARENT)
        assert (call["bytes"], call["status"]) == (4096, 0)
    finally:
        peer.stop()
