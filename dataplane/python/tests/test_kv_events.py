"""Key events of a real master, consumed as routers do: with ZeroMQ's own library and msgpack."""

import contextlib
import socket
import time

import msgpack
import pytest
import zmq
from conftest import START_TIMEOUT_S, Process, connect, program
from event_consumers import PATIENCE_S, POLL_MS, Consumer
from event_master import SEGMENT_BYTES, Master

from mooncake.store import ReplicateConfig

VALUE_BYTES = 64 << 10
LARGE_HASH = (1 << 64) - 2
MEDIA = ("cpu", "disk")
REPLAY_END = (-1).to_bytes(8, "big", signed=True)


class Router(Consumer):
    """Knows which keys a master has from its events alone; fills gaps by replay, else by snapshot.

    It follows as two kinds of consumers do: `known` goes by the last event of a key, `media` by the
    events of each medium.
    """

    def __init__(self, master):
        self.master = master
        super().__init__(f"tcp://127.0.0.1:{master.publish}")
        self.known = {}
        self.media = {medium: set() for medium in MEDIA}
        self.next = None
        self.events = []
        self.snapshots = 0

    def join(self, store):
        """Wait until the subscription is seen, then take a snapshot."""
        super().join(store)
        self.begin_again()

    def begin_again(self):
        self.snapshots += 1
        self.next, objects = self.master.snapshot()
        self.known = {one["object_key"]: (one["size"], one["group_id"]) for one in objects}
        for medium, keys in self.media.items():
            keys.clear()
            keys.update(one["object_key"] for one in objects if one["medium"] == medium)
        assert set().union(*self.media.values()) == set(self.known)

    def take(self):
        """Apply what has come; return whether anything did."""
        if not self.socket.poll(POLL_MS):
            return False
        topic, number, payload = self.socket.recv_multipart()
        assert topic == b""
        number = int.from_bytes(number, "big")
        if number > self.next:
            self.fill(number)
        if number == self.next:
            self.apply(number, payload)
        return True

    def fill(self, end):
        for number, payload in self.replay(self.next):
            if number == self.next < end:
                self.apply(number, payload)
        if self.next < end:
            self.begin_again()

    def apply(self, number, payload):
        assert number == self.next
        self.next = number + 1
        _, events, _ = msgpack.unpackb(payload)
        for event in events:
            self.events.append(event)
            assert event["backend_id"] == "test-pool"
            media = self.media[event["medium"]]
            if event["event_type"] == "stored":
                self.known[event["object_key"]] = (event["size"], event["group_id"])
                media.add(event["object_key"])
            elif event["event_type"] == "removed":
                self.known.pop(event["object_key"], None)
                media.discard(event["object_key"])
            else:
                assert event["event_type"] == "cleared"
                self.known = {}
                media.clear()

    def replay(self, first):
        """Ask for all batches from a number on, with the socket that vLLM's consumers use."""
        with self.zmq.socket(zmq.DEALER) as socket:
            socket.connect(f"tcp://127.0.0.1:{self.master.replay}")
            socket.send_multipart([b"", first.to_bytes(8, "big")])
            while True:
                assert socket.poll(PATIENCE_S * 1000), "the replay did not end"
                delimiter, number, payload = socket.recv_multipart()
                assert delimiter == b""
                if number == REPLAY_END:
                    assert payload == b""
                    return
                yield int.from_bytes(number, "big"), payload

    def wait_for(self, condition, what):
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < deadline, f"{what}: {sorted(self.known)[:20]}"
            self.take()

    def agrees(self):
        keys = self.master.keys()
        return set(self.known) == keys and set().union(*self.media.values()) == keys


@pytest.fixture
def master(tmp_path):
    one = Master(tmp_path)
    yield one
    one.process.stop()


@pytest.fixture
def donor(master):
    """A client with memory that the master hands out."""
    client = connect(f"127.0.0.1:{master.rpc}", SEGMENT_BYTES)
    yield client
    client.close()


@pytest.fixture
def router(master, donor):
    one = Router(master)
    one.join(donor)
    yield one
    one.close()


def test_a_router_learns_of_puts_upserts_groups_and_removals(master, donor, router):
    config = ReplicateConfig()
    config.group_ids = ["a prefix"]
    assert donor.put("12345", b"x" * 100, config) == 0
    assert donor.put("page_0_k", b"x" * 200) == 0
    assert donor.upsert("page_0_k", b"x" * 300) == 0
    router.wait_for(lambda: router.known.get("page_0_k") == (300, None), "an upsert")
    assert router.known["12345"] == (100, "a prefix")
    stored = next(event for event in router.events if event.get("object_key") == "12345")
    assert stored["seq_hashes"] == stored["block_hashes"] == [12345]
    # A hash above 2**63 is the same number in both, as in every other event.
    assert donor.put(str(LARGE_HASH), b"x") == 0
    router.wait_for(lambda: str(LARGE_HASH) in router.known, "a large hash")
    assert router.events[-1]["seq_hashes"] == router.events[-1]["block_hashes"] == [LARGE_HASH]
    assert {event["dp_rank"] for event in router.events} == {0}
    assert (stored["event_type"], stored["type"]) == ("stored", "BlockStored")
    assert donor.remove("12345", True) == 0
    router.wait_for(lambda: "12345" not in router.known, "a removal")
    assert donor.remove_all(True) > 0
    router.wait_for(lambda: not router.known, "the removal of all")
    status = master.status()
    assert status["enabled"] and status["published_events"] >= len(router.events)
    assert status["dropped_events"] == 0


def test_a_router_knows_of_each_eviction(master, donor, router):
    value = b"v" * VALUE_BYTES
    for number in range(3 * SEGMENT_BYTES // VALUE_BYTES):
        assert donor.put(f"evict-{number}", value) in (0, -200)
        router.take()
    router.wait_for(router.agrees, "agreement with the master")
    removed = [event for event in router.events if event["event_type"] == "removed"]
    assert removed, "nothing was evicted"


def test_a_router_that_comes_late_gets_a_snapshot_or_everything_by_replay(master, donor):
    keys = {f"early-{number}" for number in range(300)}
    assert all(donor.put(key, b"early") == 0 for key in keys)
    with contextlib.closing(Router(master)) as late:
        late.join(donor)
        assert keys <= set(late.known)
        late.wait_for(late.agrees, "agreement with the master")
    with contextlib.closing(Router(master)) as replaying:
        batches = list(replaying.replay(0))
        replaying.next = batches[0][0]
        for number, payload in batches:
            replaying.apply(number, payload)
        cleared = [(event["event_type"], event["medium"]) for event in replaying.events[:2]]
        assert cleared == [("cleared", medium) for medium in MEDIA]
        assert set(replaying.known) == master.keys()
        ids = [event["event_id"] for event in replaying.events]
        assert ids == list(range(len(ids)))


def test_a_router_knows_the_medium_of_what_goes_to_disk_and_comes_back(tmp_path):
    """Keys that leave memory are still known, and a late router learns where they lie."""
    promotion = ("--promotion_on_hit", "--promotion_admission_threshold=1")
    master = Master(tmp_path, ("--enable_offload", "--offload_on_evict=false", *promotion))
    with contextlib.ExitStack() as stack:
        stack.callback(lambda: master.process.stop())
        disk = {"enable_ssd_offload": True, "ssd_offload_path": str(tmp_path / "disk")}
        donor = connect(f"127.0.0.1:{master.rpc}", SEGMENT_BYTES, **disk)
        stack.callback(donor.close)
        router = stack.enter_context(contextlib.closing(Router(master)))
        router.join(donor)
        assert donor.put("12345", b"v" * VALUE_BYTES) == 0
        router.wait_for(lambda: "12345" in router.media["disk"], "a copy on the disk")
        assert "12345" in router.media["cpu"]
        number = 0
        while "12345" in router.media["cpu"]:
            assert donor.put(f"more-{number}", b"v" * VALUE_BYTES) in (0, -200)
            number += 1
            router.take()
        router.wait_for(lambda: "12345" in router.known, "the copy that is left")
        with contextlib.closing(Router(master)) as late:
            late.join(donor)
            assert "12345" in late.media["disk"] and "12345" not in late.media["cpu"]
        with contextlib.closing(Router(master)) as replaying:
            batches = list(replaying.replay(0))
            replaying.next = batches[0][0]
            for sequence, payload in batches:
                replaying.apply(sequence, payload)
            assert "12345" in replaying.media["disk"] and "12345" in replaying.known
        deadline = time.monotonic() + PATIENCE_S
        while "12345" not in router.media["cpu"]:
            assert time.monotonic() < deadline, "it did not come back to memory"
            assert donor.get("12345") == b"v" * VALUE_BYTES
            router.take()
        assert donor.remove("12345", True) == 0
        router.wait_for(lambda: "12345" not in router.known, "the removal")
        router.wait_for(router.agrees, "agreement with the master")
        assert not any("12345" in keys for keys in router.media.values())


def test_a_router_that_missed_batches_fills_the_gap(master, donor, router):
    router.socket.unsubscribe(b"")
    for number in range(10):
        assert donor.put(f"missed-{number}", b"value") == 0
    router.socket.subscribe(b"")
    deadline = time.monotonic() + PATIENCE_S
    attempt = 0
    while "missed-9" not in router.known:
        assert time.monotonic() < deadline, "no gap was filled after the subscription"
        assert donor.put(f"after-{attempt}", b"value") == 0
        attempt += 1
        router.take()
    router.wait_for(router.agrees, "agreement with the master")
    assert router.snapshots == 1


def test_after_a_restart_of_the_master_no_key_of_its_earlier_life_is_kept(master, donor, router):
    assert donor.put("before", b"value") == 0
    router.wait_for(lambda: "before" in router.known, "a put")
    last = router.next
    donor.close()
    master.kill()
    master.start()
    with contextlib.closing(connect(f"127.0.0.1:{master.rpc}", SEGMENT_BYTES)) as another:
        deadline = time.monotonic() + PATIENCE_S
        attempt = 0
        while router.snapshots == 1:
            assert time.monotonic() < deadline, "the restart was not seen"
            assert another.put(f"after-{attempt}", b"value") == 0
            attempt += 1
            router.take()
        assert router.next > last
        router.wait_for(router.agrees, "agreement with the master")
        assert "before" not in router.known


def test_a_consumer_that_does_not_read_and_strangers_disturb_no_other(master, donor, router):
    greeting = b"\xff" + bytes(8) + b"\x7f\x03\x00NULL" + bytes(16 + 32)
    subscriber = b"\x04\x19\x05READY\x0bSocket-Type\x00\x00\x00\x03SUB"
    with contextlib.ExitStack() as stack:
        def stranger(port, data):
            one = stack.enter_context(socket.create_connection(("127.0.0.1", port), 10))
            one.sendall(data)

        for port in (master.publish, master.replay):
            stranger(port, b"GET / HTTP/1.1\r\n\r\n" + bytes(64))
            stranger(port, greeting + b"\x06" + b"\xff" * 8)
            stranger(port, greeting + b"\x02\x7f" + b"\xff" * 7)
            stranger(port, b"\xff")
        # It subscribes and never reads.
        stranger(master.publish, greeting + subscriber + b"\x00\x01\x01")
        for number in range(2000):
            assert donor.put(f"key-{number % 100}", b"v" * 100) in (0, -705)
            assert donor.remove(f"key-{number % 100}", True) in (0, -704)
        router.wait_for(router.agrees, "agreement with the master")
        assert master.process.alive()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--kv_events_bind_endpoint=here"], "tcp://HOST:PORT"),
        (["--kv_events_backend_id="], "kv_events_backend_id"),
    ],
)
def test_a_start_with_bad_settings_says_what_to_change(tmp_path, arguments, sentence):
    arguments = [
        program("mooncake_master"),
        "--enable_kv_events",
        "--kv_events_bind_endpoint=tcp://127.0.0.1:0",
        "--kv_events_backend_id=b",
        *arguments,
    ]
    refused = Process(arguments, tmp_path / "refused.log")
    assert refused.process.wait(START_TIMEOUT_S) == 2
    assert sentence in (tmp_path / "refused.log").read_text()


def test_a_port_that_is_taken_is_named(tmp_path):
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        held.listen()
        endpoint = f"tcp://127.0.0.1:{held.getsockname()[1]}"
        arguments = [
            program("mooncake_master"),
            "--rpc_port=0",
            "--metrics_port=0",
            "--enable_kv_events",
            f"--kv_events_bind_endpoint={endpoint}",
            "--kv_events_backend_id=b",
        ]
        refused = Process(arguments, tmp_path / "refused.log")
        assert refused.process.wait(START_TIMEOUT_S) != 0
        assert endpoint in (tmp_path / "refused.log").read_text()
