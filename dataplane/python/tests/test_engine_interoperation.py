"""Perigee's engine and Mooncake's move bytes to each other, in both directions.

`PERIGEE_WITHOUT_MOONCAKE=1` leaves these tests out, where the package index cannot be reached.
"""

import os
import sys

import pytest
from conftest import START_TIMEOUT_S, Process, free_ports, listens, program, wait_until
from engine_peer import HOST, PART_BYTES, PEER_TO_PEER, Peer, pattern
from mooncake_venv import mooncake_python

pytestmark = pytest.mark.skipif(
    bool(os.environ.get("PERIGEE_WITHOUT_MOONCAKE")), reason="PERIGEE_WITHOUT_MOONCAKE is set"
)

PERIGEE, MOONCAKE = "perigee", "mooncake"
BOTH_WAYS = pytest.mark.parametrize(
    ("initiator_kind", "target_kind"), [(PERIGEE, MOONCAKE), (MOONCAKE, PERIGEE)]
)
ENVIRONMENT = {
    # Mooncake's engine finds no address of its own where loopback is the only interface.
    "MC_TCP_BIND_ADDRESS": HOST,
    "MC_TRANSFER_TIMEOUT": "10",
}
SERVE = {"PERIGEE_SERVE_MOONCAKE": "1"}


@pytest.fixture(scope="session")
def pythons():
    return {PERIGEE: sys.executable, MOONCAKE: mooncake_python()}


@pytest.fixture(params=[PEER_TO_PEER, "http"])
def metadata(request, tmp_path):
    """Metadata of both engines: none, or Perigee's server."""
    if request.param == PEER_TO_PEER:
        yield PEER_TO_PEER
        return
    [port] = free_ports(1)
    server = Process(
        [program("mooncake_http_metadata_server"), "--host", HOST, "--port", str(port)],
        tmp_path / "metadata.log",
    )
    wait_until(lambda: server.alive() and listens(port), START_TIMEOUT_S, "metadata server start")
    yield f"http://{HOST}:{port}/metadata"
    server.stop()


@pytest.fixture
def start(pythons, tmp_path):
    """Starts an engine of a kind."""
    started = []

    def start_one(kind, metadata=PEER_TO_PEER, environment=SERVE):
        name = HOST if metadata == PEER_TO_PEER else f"{HOST}:{free_ports(1)[0]}"
        log = tmp_path / f"{kind}-{len(started)}.log"
        peer = Peer(log, pythons[kind], {**ENVIRONMENT, **environment}, name, metadata)
        started.append(peer)
        return peer

    yield start_one
    for peer in started:
        peer.stop()


@BOTH_WAYS
def test_bytes_are_written_and_read(start, metadata, initiator_kind, target_kind):
    target = start(target_kind, metadata)
    initiator = start(initiator_kind, metadata)
    initiator.fill(1)
    for size in (1, 4096, 65536 + 1, PART_BYTES):
        offset = PART_BYTES - size
        there = (target.session, initiator.address + offset, target.address + offset, size)
        assert initiator.call("transfer_sync_write", *there) == 0, initiator.text()
        assert target.get(offset, size) == initiator.get(offset, size)
    target.fill(2)
    for size in (1, 4096, 65536 + 1, PART_BYTES):
        back = (target.session, initiator.address, target.address, size)
        assert initiator.call("transfer_sync_read", *back) == 0, initiator.text()
        assert initiator.get(0, size) == pattern(2, PART_BYTES)[:size]
    assert target.neighbours_are_untouched() and initiator.neighbours_are_untouched()


@BOTH_WAYS
def test_batches_are_written_and_read(start, metadata, initiator_kind, target_kind):
    target = start(target_kind, metadata)
    initiator = start(initiator_kind, metadata)
    piece, count = 30_000, 100
    initiator.fill(3)
    local = [initiator.address + index * piece for index in range(count)]
    remote = [target.address + (count - 1 - index) * piece for index in range(count)]
    lists = (target.session, local, remote, [piece] * count)
    assert initiator.call("batch_transfer_sync_write", *lists) == 0, initiator.text()
    whole = target.get(0, piece * count)
    sent = pattern(3, PART_BYTES)
    assert whole[:piece] == sent[(count - 1) * piece :][:piece]
    assert whole[-piece:] == sent[:piece]
    batch = initiator.call("batch_transfer_async_read", *lists)
    assert initiator.call("get_batch_transfer_status", [batch]) == 0
    assert initiator.get(0, piece * count) == sent[: piece * count]


@BOTH_WAYS
@pytest.mark.parametrize(("offset", "length"), [(-8, 8), (-8, 16), (PART_BYTES - 8, 16)])
def test_memory_that_is_not_registered_is_refused(
    start, initiator_kind, target_kind, offset, length
):
    target, initiator = start(target_kind), start(initiator_kind)
    initiator.fill(4)
    arguments = (target.session, initiator.address, target.address + offset, length)
    assert initiator.call("transfer_sync_write", *arguments) == -1
    assert initiator.call("transfer_sync_read", *arguments) == -1
    assert target.neighbours_are_untouched()
    assert initiator.get(0, PART_BYTES) == pattern(4, PART_BYTES)
    good = (target.session, initiator.address, target.address, PART_BYTES)
    assert initiator.call("transfer_sync_write", *good) == 0


@BOTH_WAYS
def test_notifies_arrive(start, initiator_kind, target_kind):
    target, initiator = start(target_kind), start(initiator_kind)
    initiator.fill(5)
    one = (target.session, initiator.address, target.address, 5000)
    extra = ({"opcode": "Write"}, {"notify": ["request", "is there"]})
    assert initiator.call("transfer_sync", *one, *extra) == 0
    assert target.wait_for_notify() == [("request", "is there")]
    assert target.get(0, 5000) == pattern(5, PART_BYTES)[:5000]


@BOTH_WAYS
def test_probes_tell_the_living_from_the_dead(start, initiator_kind, target_kind):
    target, initiator = start(target_kind), start(initiator_kind)
    assert initiator.call("send_probe", target.session) == 0
    target.kill()
    assert initiator.call("send_probe", target.session) == -102


@BOTH_WAYS
def test_first_buffer_is_known(start, metadata, initiator_kind, target_kind):
    target = start(target_kind, metadata)
    initiator = start(initiator_kind, metadata)
    assert initiator.call("get_first_buffer_address", target.session) == target.address


def test_mooncake_is_not_served_unless_asked_for(start):
    target = start(PERIGEE, environment={"PERIGEE_SERVE_MOONCAKE": "0"})
    initiator = start(MOONCAKE)
    initiator.fill(6)
    arguments = (target.session, initiator.address, target.address, 4096)
    assert initiator.call("transfer_sync_write", *arguments) == -1
    assert target.get(0, 4096) == bytes(4096)
    other = start(PERIGEE)
    one = (target.session, other.address, target.address, 1)
    assert other.call("transfer_sync_write", *one) == 0
