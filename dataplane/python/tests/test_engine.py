"""Transfers between this process and another one, with `mooncake.engine` on both sides."""

import gc
import mmap
import os
import socket
import threading
import time

import numpy
import pytest
from conftest import wait_until
from engine_peer import HOST, PART_BYTES, PEER_TO_PEER, Memory, Peer, pattern

from mooncake.engine import TransferEngine, TransferNotify, TransferOpcode

DEADLINE_S = 60
SHORTEST_DEADLINE_S = "5"
UNUSED = "127.0.0.1:1"
SIZES = [1, 7, 4096, 65536 + 3, (1 << 20) + 1, PART_BYTES]


@pytest.fixture
def peer(tmp_path):
    running = Peer(tmp_path / "peer.log")
    yield running
    assert running.stop() in (0, -9), running.text()


@pytest.fixture
def memory():
    return Memory()


@pytest.fixture
def engine(memory):
    running = TransferEngine()
    assert running.initialize(HOST, PEER_TO_PEER, "tcp", "") == 0
    assert running.register_memory(memory.registered, PART_BYTES) == 0
    return running


def wait_done(engine, batch):
    """Poll until the batch is over; return the last answer."""
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        if answer := engine.transfer_check_status(batch):
            return answer
        time.sleep(0.001)
    raise AssertionError("the batch is still running")


def has_ipv6():
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


def own_session(engine):
    return f"{HOST}:{engine.get_rpc_port()}"


@pytest.mark.parametrize("size", SIZES)
def test_bytes_come_back_as_they_were_written(engine, memory, peer, size):
    offset = PART_BYTES - size
    sent = pattern(size, size)
    memory.set(0, sent)
    at = peer.address + offset
    assert engine.transfer_sync_write(peer.session, memory.registered, at, size) == 0
    assert peer.get(offset, size) == sent
    memory.set(0, bytes(size))
    assert engine.transfer_sync_read(peer.session, memory.registered, at, size) == 0
    assert memory.get(0, size) == sent
    assert peer.neighbours_are_untouched() and not any(memory.neighbours())


@pytest.mark.parametrize("protocol", ["rdma", "", "tcp,rdma", "TCP"])
@pytest.mark.parametrize("device_name", ["", "mlx5_0"])
def test_any_protocol_moves_bytes_on_a_host_without_its_devices(
    memory, peer, protocol, device_name
):
    engine = TransferEngine()
    assert engine.initialize(HOST, PEER_TO_PEER, protocol, device_name) == 0
    assert engine.register_memory(memory.registered, PART_BYTES) == 0
    memory.set(0, b"moved")
    at = memory.registered
    assert engine.transfer_sync_write(peer.session, at, peer.address, 5) == 0
    assert peer.get(0, 5) == b"moved"


def test_rdma_can_be_required(monkeypatch):
    monkeypatch.setenv("PERIGEE_REQUIRE_RDMA", "1")
    assert TransferEngine().initialize(HOST, PEER_TO_PEER, "rdma", "no-such-device") == -6
    assert TransferEngine().initialize(HOST, PEER_TO_PEER, "tcp", "") == 0


@pytest.mark.skipif(not has_ipv6(), reason="this host has no IPv6")
@pytest.mark.parametrize("host", ["::1", "[::1]"])
def test_ipv6_sessions_need_no_brackets(engine, memory, host):
    other, target = TransferEngine(), Memory()
    assert other.initialize(host, PEER_TO_PEER, "tcp", "") == 0
    assert other.register_memory(target.registered, PART_BYTES) == 0
    memory.set(0, b"moved")
    for session in (f"::1:{other.get_rpc_port()}", f"[::1]:{other.get_rpc_port()}"):
        target.set(0, bytes(5))
        at = memory.registered
        assert engine.transfer_sync_write(session, at, target.registered, 5) == 0
        assert target.get(0, 5) == b"moved"


def test_memory_mapped_for_reading_can_be_read_and_a_write_breaks_nothing(engine, memory):
    other, target = TransferEngine(), Memory()
    weights = numpy.frombuffer(mmap.mmap(-1, 65536, prot=mmap.PROT_READ), numpy.uint8)
    frozen = weights.ctypes.data
    assert other.initialize(HOST, PEER_TO_PEER, "tcp", "") == 0
    assert other.batch_register_memory([frozen, target.registered], [65536, PART_BYTES]) == 0
    session, at = own_session(other), memory.registered
    for size in (64, 65536):
        both = ([at, at], [frozen, target.registered], [size, size])
        memory.set(0, b"x" * size)
        assert engine.transfer_sync_write(session, at, frozen, size) == -1
        batch = engine.batch_transfer_async_write(session, *both)
        assert wait_done(engine, batch) == -1
        assert target.get(0, size) == b"x" * size
        assert engine.transfer_sync_read(session, at, frozen, size) == 0
        assert memory.get(0, size) == bytes(size)


def test_nothing_is_done_for_no_bytes(engine, memory, peer):
    assert engine.transfer_sync_write(peer.session, memory.registered, peer.address, 0) == 0
    assert engine.batch_transfer_sync_read(peer.session, [], [], []) == 0
    batch = engine.batch_transfer_async_write(peer.session, [], [], [])
    assert batch != 0 and engine.get_batch_transfer_status([batch]) == 0
    assert engine.get_batch_transfer_status([]) == 0


def test_engine_reaches_its_own_memory(engine, memory):
    memory.set(0, b"bytes")
    session, at = own_session(engine), memory.registered
    assert engine.transfer_sync_write(session, at, at + 100, 5) == 0
    assert memory.get(100, 5) == b"bytes"


@pytest.mark.parametrize("kind", [list, tuple, numpy.array])
def test_scattered_pieces_arrive_where_they_belong(engine, memory, peer, kind):
    piece, count = 1000, 1500
    memory.set(0, pattern(1, piece * count))
    order = pattern(2, count)
    places = sorted(range(count), key=lambda index: (order[index], index))
    local = [memory.registered + index * piece for index in range(count)]
    remote = [peer.address + place * piece for place in places]
    lists = [kind(local), kind(remote), kind([piece] * count)]
    assert engine.batch_transfer_sync_write(peer.session, *lists) == 0
    whole = peer.get(0, piece * count)
    for index in (0, 1, 700, count - 1):
        place = places[index] * piece
        assert whole[place : place + piece] == memory.get(index * piece, piece)
    memory.set(0, bytes(piece * count))
    assert engine.batch_transfer_sync_read(peer.session, *lists) == 0
    assert memory.get(0, piece * count) == pattern(1, piece * count)


def test_opcode_says_the_direction(engine, memory, peer):
    memory.set(0, b"written")
    one = (peer.session, memory.registered, peer.address, 7)
    assert engine.transfer_sync(*one, TransferOpcode.Write) == 0
    assert peer.get(0, 7) == b"written"
    memory.set(0, bytes(7))
    lists = (peer.session, [memory.registered], [peer.address], [7])
    assert engine.batch_transfer_sync(*lists, TransferOpcode.Read, transport_hint="tcp") == 0
    assert memory.get(0, 7) == b"written"


def test_notify_arrives_after_the_bytes_and_once(engine, memory, peer):
    memory.set(0, pattern(3, PART_BYTES))
    notify = TransferNotify("done", "request 7 \u00e9")
    whole = (peer.session, memory.registered, peer.address, PART_BYTES)
    assert engine.transfer_sync(*whole, TransferOpcode.Write, notify) == 0
    assert peer.wait_for_notify() == [("done", "request 7 \u00e9")]
    assert peer.get(PART_BYTES - 9, 9) == pattern(3, PART_BYTES)[-9:]
    assert peer.notifies() == []


def test_transfer_that_fails_sends_no_notify(engine, memory, peer):
    outside = (peer.session, memory.registered, peer.address - 1, 1)
    inside = (peer.session, memory.registered, peer.address, 1)
    assert engine.transfer_sync(*outside, TransferOpcode.Write, TransferNotify("a", "")) == -1
    assert engine.transfer_sync(*inside, TransferOpcode.Write, TransferNotify("b", "")) == 0
    assert peer.wait_for_notify() == [("b", "")]


def test_batches_are_polled_until_they_are_done(engine, memory, peer):
    memory.set(0, pattern(4, PART_BYTES))
    one = (peer.session, memory.registered, peer.address, PART_BYTES)
    lists = (peer.session, [memory.registered], [peer.address], [PART_BYTES])
    submitted = [
        engine.transfer_submit_write(*one),
        engine.batch_transfer_async_write(*lists),
        engine.batch_transfer_async_read(*lists),
        engine.batch_transfer_async(*lists, TransferOpcode.Write),
    ]
    assert all(0 < batch < 1 << 63 for batch in submitted) and len(set(submitted)) == 4
    assert [wait_done(engine, batch) for batch in submitted] == [1] * 4
    assert [engine.transfer_check_status(batch) for batch in submitted] == [-1] * 4
    assert peer.get(0, PART_BYTES) == pattern(4, PART_BYTES)


def test_batches_are_waited_for_together(engine, memory, peer):
    lists = (peer.session, [memory.registered], [peer.address], [PART_BYTES])
    batches = [engine.batch_transfer_async_write(*lists) for _ in range(8)]
    assert engine.get_batch_transfer_status([*batches, batches[0]]) == 0
    assert engine.get_batch_transfer_status(batches) == -1


def test_one_batch_that_fails_does_not_keep_the_others_from_ending(engine, memory, peer):
    memory.set(0, b"good")
    good = engine.transfer_submit_write(peer.session, memory.registered, peer.address, 4)
    bad = engine.transfer_submit_write(peer.session, memory.registered, peer.address - 1, 4)
    if bad:
        assert engine.get_batch_transfer_status([bad, good]) == -1
    else:
        assert engine.get_batch_transfer_status([good]) == 0
    assert peer.get(0, 4) == b"good" and peer.neighbours_are_untouched()


def test_unknown_numbers_are_failed_batches(engine):
    assert [engine.transfer_check_status(batch) for batch in (0, 1, (1 << 64) - 1)] == [-1] * 3
    assert engine.get_batch_transfer_status([0]) == -1


@pytest.mark.parametrize(
    ("offset", "length"),
    [(-1, 1), (-1, 2), (PART_BYTES - 1, 2), (PART_BYTES, 1), (-PART_BYTES, 3 * PART_BYTES)],
)
def test_memory_that_the_peer_did_not_register_is_out_of_reach(
    engine, memory, peer, offset, length
):
    memory.set(-PART_BYTES, pattern(5, 3 * PART_BYTES))
    before = memory.bytes[:]
    local, remote = memory.start, peer.address + offset
    assert engine.transfer_sync_write(peer.session, local, remote, length) == -1
    assert engine.transfer_sync_read(peer.session, local, remote, length) == -1
    lists = (peer.session, [local, local], [peer.address, remote], [1, length])
    assert engine.batch_transfer_sync_read(*lists) == -1
    assert memory.bytes[1:] == before[1:]
    assert peer.neighbours_are_untouched()


def test_local_memory_need_not_be_registered(engine, memory, peer):
    memory.set(PART_BYTES, b"unregistered")
    local = memory.registered + PART_BYTES
    assert engine.transfer_sync_write(peer.session, local, peer.address, 12) == 0
    assert peer.get(0, 12) == b"unregistered"


def test_local_memory_that_does_not_exist_is_an_error(engine, peer):
    assert engine.transfer_sync_write(peer.session, 4096, peer.address, 100) == -1
    assert engine.transfer_sync_read(peer.session, 4096, peer.address, 100) == -1
    assert peer.get(0, 100) == bytes(100)


def test_registered_ranges_do_not_overlap(engine, memory):
    at = memory.registered
    assert engine.register_memory(at, PART_BYTES) == -7
    assert engine.register_memory(at - 1, 2) == -7
    assert engine.register_memory(at + PART_BYTES - 1, 1) == -7
    assert engine.unregister_memory(at + 1) == -3
    assert engine.unregister_memory(at) == 0
    assert engine.unregister_memory(at) == -3
    assert engine.register_memory(at, 0) < 0
    assert engine.register_memory(0, 1) < 0
    assert engine.register_memory(at, PART_BYTES, "cpu:0") == 0


def test_ranges_are_registered_together_or_not_at_all(engine, memory):
    before, after = memory.start, memory.registered + PART_BYTES
    assert engine.batch_register_memory([before, memory.registered + 1], [4096, 1]) == -7
    assert engine.batch_register_memory([before, before], [4096, 4096]) == -7
    assert engine.unregister_memory(before) == -3
    assert engine.batch_register_memory([before, after], [4096, PART_BYTES]) == 0
    assert engine.batch_unregister_memory([before, before + 1, after]) == -3
    assert engine.batch_unregister_memory([before, after]) == -3
    assert engine.batch_register_memory([before, after], [4096, PART_BYTES]) == 0
    assert engine.batch_unregister_memory([before, before, after]) == -3
    assert engine.unregister_memory(after) == -3
    assert engine.batch_register_memory([], []) == 0
    assert engine.batch_unregister_memory([]) == 0


def test_unregistered_memory_is_out_of_reach_at_once(engine, memory, peer):
    one = (peer.session, memory.registered, peer.address, 8)
    assert engine.transfer_sync_write(*one) == 0
    assert peer.call("unregister_memory", peer.address) == 0
    assert engine.transfer_sync_write(*one) == -1
    assert peer.call("register_memory", peer.address, PART_BYTES) == 0
    assert engine.transfer_sync_write(*one) == 0


def test_managed_buffers_are_registered_memory(engine, peer):
    local = engine.allocate_managed_buffer(10_000)
    remote = peer.call("allocate_managed_buffer", 10_000)
    assert local and remote
    sent = pattern(6, 10_000)
    assert engine.write_bytes_to_buffer(local, sent, len(sent)) == 0
    assert engine.transfer_sync_write(peer.session, local, remote, len(sent)) == 0
    assert engine.write_bytes_to_buffer(local, "text \u00e9", 7) == 0
    assert engine.read_bytes_from_buffer(local, 8) == "text \u00e9".encode() + sent[7:8]
    assert engine.transfer_sync_read(peer.session, local, remote, len(sent)) == 0
    assert engine.read_bytes_from_buffer(local, len(sent)) == sent
    assert engine.free_managed_buffer(local, 10_000) == 0
    assert engine.free_managed_buffer(local, 10_000) < 0
    assert engine.free_managed_buffer(12345, 10_000) < 0
    assert engine.allocate_managed_buffer(1 << 50) == 0


def test_first_buffer_of_a_peer_is_the_one_it_registered_first(engine, peer):
    assert engine.get_first_buffer_address(peer.session) == peer.address
    assert engine.get_first_buffer_address(UNUSED) == 0


def test_probe_tells_the_living_from_the_dead(engine, peer):
    assert engine.send_probe(peer.session) == 0
    assert engine.send_probe(own_session(engine)) == 0
    assert engine.send_probe(UNUSED) == -102
    assert engine.send_probe("no.such.host.invalid:1") == -101
    peer.kill()
    assert engine.send_probe(peer.session) == -102


def test_transfers_to_an_absent_peer_fail(engine, memory):
    one = (UNUSED, memory.registered, 4096, 8)
    assert engine.transfer_sync_write(*one) == -1
    assert engine.transfer_sync_read(*one) == -1
    batch = engine.transfer_submit_write(*one)
    assert batch == 0 or wait_done(engine, batch) == -1
    assert engine.transfer_sync_write("", memory.registered, 4096, 8) == -1


def test_transfers_end_when_the_peer_dies(engine, memory, peer):
    whole = (peer.session, memory.registered, peer.address, PART_BYTES)
    assert engine.transfer_sync_write(*whole) == 0
    codes = []

    def write():
        while not codes or codes[-1] == 0:
            codes.append(engine.transfer_sync_write(*whole))

    writer = threading.Thread(target=write)
    writer.start()
    while not codes:
        time.sleep(0.001)
    peer.kill()
    writer.join(DEADLINE_S)
    assert not writer.is_alive() and codes[-1] == -1


def test_peer_that_freezes_costs_the_deadline_and_not_the_interpreter(
    memory, peer, monkeypatch
):
    monkeypatch.setenv("MC_TRANSFER_TIMEOUT", SHORTEST_DEADLINE_S)
    engine = TransferEngine()
    assert engine.initialize(HOST, PEER_TO_PEER, "tcp", "") == 0
    whole = (peer.session, memory.registered, peer.address, PART_BYTES)
    # Both kinds have a connection before the peer freezes; it could not accept one after.
    assert engine.transfer_sync_write(*whole) == 0
    assert engine.get_batch_transfer_status([engine.transfer_submit_write(*whole)]) == 0
    peer.freeze()
    batch = engine.transfer_submit_write(*whole)
    codes = []
    writer = threading.Thread(target=lambda: codes.append(engine.transfer_sync_write(*whole)))
    writer.start()
    # This loop runs while the call waits, so the call has let the interpreter go.
    turns = 0
    while writer.is_alive():
        turns += 1
        writer.join(0.01)
    assert turns > 10 and codes == [-1]
    assert wait_done(engine, batch) == -2
    peer.thaw()
    # It may be left alone for a moment yet, and takes its time to come back on a busy host.
    wait_until(
        lambda: engine.transfer_sync_write(*whole) == 0, DEADLINE_S, "a write after the thaw"
    )


def test_many_threads_use_one_engine(engine, memory, peer):
    piece, threads, rounds = 8192, 8, 50
    memory.set(0, pattern(7, piece * threads))
    codes = []

    def move(number):
        at = number * piece
        local, remote = memory.registered + at, peer.address + at
        for _ in range(rounds):
            codes.append(engine.transfer_sync_write(peer.session, local, remote, piece))
            codes.append(engine.transfer_sync_read(peer.session, local, remote, piece))

    workers = [threading.Thread(target=move, args=(number,)) for number in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(DEADLINE_S)
    assert codes == [0] * (2 * threads * rounds)
    assert peer.get(0, piece * threads) == pattern(7, piece * threads)
    assert memory.get(0, piece * threads) == pattern(7, piece * threads)


def test_initialize_again_starts_a_new_engine(engine, memory, peer, caplog):
    older = own_session(engine)
    assert engine.initialize(HOST, PEER_TO_PEER, "tcp", "") == 0
    assert own_session(engine) != older and "again" in caplog.text
    assert engine.send_probe(older) == -102
    assert engine.register_memory(memory.registered, PART_BYTES) == 0


def test_engine_ends_with_its_last_share(peer):
    engine = TransferEngine()
    assert engine.initialize(HOST, PEER_TO_PEER, "tcp", "") == 0
    session, share = own_session(engine), engine.get_engine()
    assert engine.get_engine_ptr() == engine.get_engine_ptr() != 0
    del engine
    gc.collect()
    assert peer.call("send_probe", session) == 0
    del share
    gc.collect()
    assert peer.call("send_probe", session) == -102


def test_ext_form_takes_the_kind_of_metadata_apart(memory, peer):
    engine = TransferEngine()
    assert engine.initialize_ext(HOST, PEER_TO_PEER, "tcp", "", "p2p") == 0
    assert engine.transfer_sync_write(peer.session, memory.start, peer.address, 8) == 0
    assert TransferEngine().initialize_ext(HOST, "127.0.0.1:1/metadata", "tcp", "", "http") < 0


def test_engines_come_and_go_without_leaving_descriptors(memory, peer):
    def descriptors():
        return len(os.listdir("/proc/self/fd"))

    def use():
        other = TransferEngine()
        assert other.initialize(HOST, PEER_TO_PEER, "tcp", "") == 0
        assert other.transfer_sync_write(peer.session, memory.start, peer.address, 8) == 0
        assert other.batch_transfer_async_write(peer.session, [memory.start], [peer.address], [8])

    for _ in range(3):
        use()
    settled = descriptors()
    for _ in range(5):
        use()
    assert descriptors() <= settled + 2
