"""Put and get of single objects in all forms, against a real cluster."""

import array
import ctypes
import mmap
import subprocess
import sys
import threading

import pytest
from conftest import LEASE_MS, connect, wait_until

from mooncake.store import ReplicateConfig, SoftPinAction

pytestmark = pytest.mark.cluster

SIZES = [1, 100, 4096, 65_536, 65_537, 1_000_003, 16 << 20]


def pattern(size, seed=0):
    """Return bytes that differ from place to place and from seed to seed."""
    unit = bytes((i * 31 + seed * 7 + (i >> 8)) % 251 for i in range(65_537))
    return (unit * (size // len(unit) + 1))[:size]


def memory(value):
    """Return (ctypes array with `value`, its address, its size)."""
    block = (ctypes.c_ubyte * len(value)).from_buffer_copy(value)
    return block, ctypes.addressof(block), len(value)


@pytest.mark.parametrize("size", SIZES)
def test_bytes_come_back_as_they_were(store, size):
    value = pattern(size)
    assert store.put("k", value) == 0
    assert store.is_exist("k") == 1
    assert store.get_size("k") == size
    assert store.get("k") == value


def test_get_returns_bytes_of_its_own(store):
    assert store.put("k", b"value") == 0
    first, second = store.get("k"), store.get("k")
    assert type(first) is bytes and first == second and first is not second


def test_miss_has_a_form_per_call(store):
    block, address, size = memory(bytes(8))
    assert store.get("none") == b""
    assert store.get_batch(["none"]) == [b""]
    assert store.get_buffer("none") is None
    assert store.batch_get_buffer(["none"]) == [None]
    assert store.get_into("none", address, size) == -704
    assert store.get_size("none") == -704
    assert store.is_exist("none") == 0
    assert store.remove("none") == -704
    assert store.get_replica_desc("none") == []
    assert bytes(block) == bytes(8)


def test_second_put_succeeds_and_keeps_the_first_value(store):
    assert store.put("k", b"first") == 0
    assert store.put("k", b"second and longer") == 0
    assert store.get("k") == b"first"


def test_remove_fails_while_leased_and_works_after(store):
    assert store.put("k", b"v") == 0
    assert store.get("k") == b"v"
    assert store.remove("k") == -706
    wait_until(lambda: store.remove("k") == 0, 10 * LEASE_MS / 1000, "end of the lease")
    assert store.is_exist("k") == 0


def test_forced_remove_does_not_wait_for_the_lease(store):
    assert store.put("k", b"v") == 0
    assert store.get("k") == b"v"
    assert store.remove("k", True) == 0
    assert store.get("k") == b""


@pytest.mark.parametrize(
    "value",
    [
        b"bytes",
        bytearray(b"bytearray"),
        memoryview(b"xxviewxx")[2:6],
        array.array("I", [1, 2, 3]),
        array.array("d", [0.5, -1.0]),
        (ctypes.c_uint16 * 3)(7, 8, 9),
    ],
    ids=lambda value: type(value).__name__,
)
def test_typed_buffers_are_stored_with_all_their_bytes(store, value):
    assert store.put("k", value) == 0
    assert store.get("k") == bytes(memoryview(value).cast("B"))


def test_numpy_arrays_are_stored_with_all_their_bytes(store):
    numpy = pytest.importorskip("numpy", reason="the test environment has no numpy")
    value = numpy.arange(1000, dtype=numpy.float64).reshape(10, 100)
    assert store.put("k", value) == 0
    assert store.get("k") == value.tobytes()
    assert store.put("strided", numpy.ascontiguousarray(value.T)) == 0
    assert store.get("strided") == value.T.tobytes()


def test_empty_values_and_keys_are_refused(store):
    assert store.put("k", b"") == -600
    assert store.put_parts("k", b"", b"") == -600
    assert store.put("", b"v") < 0
    assert store.is_exist("k") == 0


def test_parts_are_joined_and_none_store_nothing(store):
    assert store.put_parts("k", b"ab", memoryview(b"cd"), b"", bytearray(b"ef")) == 0
    assert store.get("k") == b"abcdef"
    assert store.put_parts("nothing") == store.upsert_parts("nothing") == 0
    assert store.is_exist("nothing") == 0


def test_put_batch_keeps_the_first_of_equal_keys(store):
    assert store.put_batch(["a", "b"], [b"1", b"2"]) == 0
    assert store.get_batch(["a", "none", "b"]) == [b"1", b"", b"2"]
    assert store.put_batch(["c", "d"], [b"3"]) == -600


def test_upsert_replaces_whatever_the_sizes(store):
    assert store.put("k", b"old") == 0
    assert store.upsert("k", b"newer value") == 0
    assert store.get("k") == b"newer value"
    assert store.upsert_parts("k", b"x", b"y") == 0
    assert store.get("k") == b"xy"
    assert store.upsert_batch(["k", "l"], [b"batch", b"made"]) == 0
    assert store.get_batch(["k", "l"]) == [b"batch", b"made"]
    block, address, size = memory(b"raw memory")
    assert store.upsert_from("k", address, size) == 0
    assert store.get("k") == b"raw memory"
    del block


@pytest.mark.parametrize("size", SIZES)
def test_zero_copy_round_trip(store, size):
    source, address, _ = memory(pattern(size, 3))
    target = (ctypes.c_ubyte * (size + 8))()
    assert store.register_buffer(address, size) == 0
    assert store.put_from("k", address, size) == 0
    assert store.get_into("k", ctypes.addressof(target), size) == size
    assert bytes(target[:size]) == bytes(source) and bytes(target[size:]) == bytes(8)
    assert store.unregister_buffer(address) == 0


def test_metadata_goes_before_the_payload(store):
    payload, payload_address, payload_size = memory(b"payload")
    head, head_address, head_size = memory(b"head:")
    code = store.put_from_with_metadata(
        "k", payload_address, head_address, payload_size, head_size
    )
    assert code == 0 and store.get("k") == b"head:payload"
    assert store.put_from_with_metadata("bare", payload_address, 0, payload_size, 0) == 0
    assert store.get("bare") == b"payload"
    del payload, head


def test_room_too_small_is_refused_and_room_to_spare_is_not(store):
    assert store.put("k", b"0123456789") == 0
    target = (ctypes.c_ubyte * 16)()
    address = ctypes.addressof(target)
    assert store.get_into("k", address, 9) == -600
    assert bytes(target) == bytes(16)
    assert store.get_into("k", address, 16) == 10
    assert bytes(target[:10]) == b"0123456789"


@pytest.mark.parametrize(("address", "size"), [(0, 1), (4096, 0), ((1 << 64) - 1, 2), (0, 0)])
def test_impossible_memory_is_refused(store, address, size):
    assert store.put_from("k", address, size) == -600
    assert store.get_into("k", address, size) == -600
    assert store.register_buffer(address, size) == -600


def test_addresses_that_cannot_be_touched_are_refused(store):
    page = mmap.PAGESIZE
    pages = mmap.mmap(-1, 2 * page)
    address = ctypes.addressof(ctypes.c_char.from_buffer(pages))
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.mprotect(ctypes.c_void_p(address + page), page, 0) == 0
    assert store.put("good", bytes(100)) == 0
    for bad, size in [(0x10, 100), (address + page - 10, 100), (address, 2 * page)]:
        assert store.register_buffer(bad, size) == -600
        assert store.put_from("k", bad, size) == -600
        assert store.batch_put_from(["k"], [bad], [size]) == [-600]
        assert store.upsert_from("k", bad, size) == -600
        if size == 100:
            assert store.get_into("good", bad, size) == -600
            assert store.batch_get_into(["good"], [bad], [size]) == [-600]
    assert store.put_from("k", address, page) == 0
    assert store.get_into("good", address, page) == 100
    assert libc.mprotect(ctypes.c_void_p(address + page), page, mmap.PROT_READ) == 0


@pytest.mark.parametrize("rights", [0, None])
def test_registered_memory_that_is_taken_away_is_refused(store, rights):
    page = mmap.PAGESIZE
    pages = mmap.mmap(-1, 256 * page)
    address = ctypes.addressof(ctypes.c_char.from_buffer(pages))
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    assert store.register_buffer(address, 256 * page) == 0
    assert store.put("good", bytes(100)) == 0
    closed = ctypes.c_void_p(address + page)
    if rights is None:
        assert libc.munmap(closed, page) == 0
    else:
        assert libc.mprotect(closed, page, rights) == 0
    for bad, size in [(address + page, 100), (address, 2 * page), (address, 256 * page)]:
        assert store.put_from("k", bad, size) == -600
        assert store.batch_put_from(["k", "l"], [address, bad], [100, size]) == [0, -600]
        assert store.remove("k", True) == 0
    assert store.get_into("good", address + page, 100) == -600
    assert store.get_into("good", address, page) == 100
    assert store.unregister_buffer(address) == 0
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x10  # MAP_FIXED: Python unmaps all of it.
    assert libc.mmap(closed, ctypes.c_size_t(page), 3, flags, -1, ctypes.c_long(0)) == address + page


def test_registering_an_overlap_is_refused(store):
    block, address, size = memory(bytes(1 << 16))
    assert store.register_buffer(address, size) == 0
    assert store.register_buffer(address + 10, 10) == -600
    assert store.unregister_buffer(address) == 0
    assert store.register_buffer(address + 10, 10) == 0
    assert store.unregister_buffer(address + 10) == 0
    del block


def test_buffer_handle_is_a_buffer_that_outlives_the_object(store):
    value = pattern(100_000)
    assert store.put("k", value) == 0
    handle = store.get_buffer("k")
    assert handle.size() == len(handle) == len(value)
    assert ctypes.string_at(handle.ptr(), handle.size()) == value
    view = memoryview(handle)
    assert (view.format, view.ndim, view.readonly, view.contiguous) == ("B", 1, False, True)
    part = view[10:20]
    assert store.remove("k", True) == 0
    del handle, view
    assert part == value[10:20]
    part[0] = 255
    assert part[0] == 255


def test_without_a_local_buffer_only_zero_copy_calls_work(master_address, store):
    bare = connect(master_address, local_buffer_bytes=0)
    block, address, size = memory(b"zero copy")
    assert bare.put("k", b"v") == -600
    assert bare.put_batch(["k"], [b"v"]) == -600
    assert bare.put_from("k", address, size) == 0
    assert bare.get("k") == b"" and bare.get_buffer("k") is None
    assert bare.get_into("k", address, size) == size
    assert bare.batch_get_into(["k"], [address], [size]) == [size]
    assert bytes(block) == b"zero copy"
    assert bare.close() == 0


def test_remove_by_regex_counts_and_refuses_bad_patterns(store):
    assert store.put_batch(["x1", "x2", "y1"], [b"1", b"2", b"3"]) == 0
    assert store.remove_by_regex("^x.*", True) == 2
    assert store.batch_is_exist(["x1", "x2", "y1"]) == [0, 0, 1]
    assert store.remove_by_regex("[", True) == -600
    assert store.remove_by_regex("y(?=1)", True) == -600


def test_a_pattern_that_would_backtrack_for_ever_answers_at_once(store):
    assert store.put("a" * 4000 + "!", b"1") == 0
    assert store.remove_by_regex("^(a+)+$", True) == 0
    assert store.remove_by_regex("(a|aa)+!$", True) == 1


def test_keys_may_be_bytes_of_utf_8(store):
    assert store.put(b"k", b"1") == 0 and store.get("k") == b"1"
    assert store.batch_is_exist(["k", b"k", "\u20ac".encode()]) == [1, 1, 0]


def test_more_replicas_than_there_can_be_is_best_effort(store):
    for count in (2, 17, 1_000_000, 2**64 - 1):
        config = ReplicateConfig()
        config.replica_num = count
        assert store.put(f"k{count}", b"value", config) == 0
        assert 1 <= len(store.get_replica_desc(f"k{count}")) <= 16


def test_force_may_be_a_number(store):
    assert store.put_batch(["a", "b"], [b"1", b"2"]) == 0
    assert store.get_batch(["a", "b"]) == [b"1", b"2"]
    assert store.remove("a", 0) == -706
    assert store.remove("a", 1) == 0
    assert store.remove_all(1) == 1


def test_remove_all_counts_and_spares_leased_objects(store):
    assert store.put_batch(["a", "b", "c"], [b"1", b"2", b"3"]) == 0
    assert store.get("a") == b"1"
    assert store.remove_all() == 2
    assert store.remove_all(force=True) == 1
    assert store.remove_all() == 0


def test_replicas_say_where_the_bytes_are(store):
    assert store.put("k", b"value") == 0
    (replica,) = store.get_replica_desc("k")
    assert replica.status.name == "COMPLETE"
    assert replica.is_memory_replica() and not replica.is_disk_replica()
    assert not replica.is_local_disk_replica()
    place = replica.get_memory_descriptor().buffer_descriptor
    assert place.size == 5 and ":" in place.transport_endpoint
    found = store.batch_get_replica_desc(["k", "none"])
    assert list(found) == ["k"] and len(found["k"]) == 1
    with pytest.raises(RuntimeError, match="shared disk"):
        replica.get_disk_descriptor()


def test_replica_clear_returns_the_keys_it_cleared(store):
    assert store.put_batch(["a", "b"], [b"1", b"2"]) == 0
    assert sorted(store.batch_replica_clear(["a", "none", "b"])) == ["a", "b"]
    assert store.batch_is_exist(["a", "b"]) == [0, 0]


def test_config_forms_of_clients_are_accepted(store):
    config = ReplicateConfig()
    config.replica_num = 1
    config.preferred_segment = store.get_hostname()
    config.with_soft_pin = True
    config.soft_pin_action = SoftPinAction.ENABLE
    assert store.put("k", b"v", config) == 0
    assert store.put_parts("l", b"v", config=config) == 0
    assert store.get_batch(["k", "l"]) == [b"v", b"v"]


SETTINGS_WITHOUT_EFFECT = """
import sys
from mooncake.store import MooncakeDistributedStore, ObjectDataType, ReplicateConfig
store = MooncakeDistributedStore()
assert store.setup("127.0.0.1", "P2PHANDSHAKE", 0, 16 << 20, "tcp", "", sys.argv[1]) == 0
config = ReplicateConfig()
config.data_type = ObjectDataType.KVCACHE
config.preferred_nof_segments = ["somewhere"]
assert [store.put(f"without-effect-{number}", b"x", config) for number in range(3)] == [0] * 3
store.close()
"""


def test_settings_of_replicas_without_effect_are_named_once(store, master_address):
    child = subprocess.run(
        [sys.executable, "-P", "-c", SETTINGS_WITHOUT_EFFECT, master_address],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert child.returncode == 0, child.stderr
    for name in ("data_type", "preferred_nof_segments"):
        assert child.stderr.count(f"ReplicateConfig.{name} has no effect") == 1, child.stderr


def test_put_of_one_value_refuses_to_keep_a_batch_together(store):
    config = ReplicateConfig()
    config.prefer_alloc_in_same_node = True
    assert store.put("k", b"v", config) == -600


def test_keys_of_any_text_work(store):
    keys = ["a/b c", "\u00fc\u4e2d\U0001f600", "x" * 1000, "k\n\t", "model@tp_rank:0@abc"]
    assert store.put_batch(keys, [key.encode() for key in keys]) == 0
    assert store.get_batch(keys) == [key.encode() for key in keys]


def test_calls_after_close_are_refused(master_address):
    client = connect(master_address)
    assert client.health_check() == 0
    assert client.close() == 0
    assert client.close() == 0
    assert client.put("k", b"v") == -600
    assert client.get("k") == b""
    assert client.batch_is_exist(["k"]) == [-600]
    assert client.health_check() == 1
    assert client.get_hostname() == ""


def test_a_closed_store_can_be_set_up_again(master_address):
    client = connect(master_address)
    assert client.setup("127.0.0.1", "P2PHANDSHAKE", 0, 1 << 20, "tcp", "", master_address) < 0
    assert client.close() == 0
    assert client.setup("127.0.0.1", "P2PHANDSHAKE", 0, 1 << 20, "tcp", "", master_address) == 0
    assert client.put("again", b"v") == 0
    assert client.remove("again", True) == 0
    assert client.close() == 0


def test_hostname_gets_a_port(store):
    host, port = store.get_hostname().rsplit(":", 1)
    assert host == "127.0.0.1" and 0 < int(port) < 65_536


def test_setup_takes_one_dict_of_texts(master_address):
    from mooncake.store import MooncakeDistributedStore

    client = MooncakeDistributedStore()
    config = {
        "local_hostname": "127.0.0.1",
        "metadata_server": "P2PHANDSHAKE",
        "global_segment_size": "0",
        "local_buffer_size": "16MB",
        "protocol": "tcp",
        "device_name": "",
        "master_server_address": master_address,
    }
    assert client.setup(config) == 0
    assert client.put("dict", b"v") == 0
    assert client.remove("dict", True) == 0
    assert client.close() == 0


def test_other_threads_run_while_a_call_waits(store):
    value = pattern(8 << 20)
    assert store.put("k", value) == 0
    ticks, stop = [], threading.Event()

    def tick():
        while not stop.is_set():
            ticks.append(None)
            stop.wait(0)

    thread = threading.Thread(target=tick)
    thread.start()
    before = len(ticks)
    for _ in range(20):
        assert len(store.get("k")) == len(value)
    stop.set()
    thread.join(10)
    assert len(ticks) > before


def test_the_client_serves_health_and_metrics_when_asked(master_address):
    import json
    import socket
    import urllib.request

    from mooncake.store import MooncakeDistributedStore

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    store = MooncakeDistributedStore()
    code = store.setup(
        "127.0.0.1",
        "P2PHANDSHAKE",
        0,
        1 << 20,
        "tcp",
        "",
        master_address,
        enable_client_http_server=True,
        client_http_port=port,
    )
    assert code == 0
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=10) as answer:
        assert json.load(answer)["code"] == 0
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        assert b"perigee_transfer_bytes_total" in answer.read()
    assert store.close() == 0
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", port)) != 0


def test_the_empty_key_names_nothing_and_takes_nothing(store):
    """The codes are those of Mooncake 0.3.13."""
    block, address, _ = memory(bytes(100))
    assert store.is_exist("") == 0 and store.batch_is_exist(["", ""]) == [0, 0]
    assert store.get("") == b"" and store.get_batch([""]) == [b""]
    assert store.get_buffer("") is None and store.batch_get_buffer([""]) == [None]
    assert store.get_size("") == -704 and store.get_into("", address, 100) == -704
    assert store.batch_get_into([""], [address], [100]) == [-704]
    assert store.batch_get_into_multi_buffers([""], [[address]], [[100]]) == [-704]
    assert store.remove("") == -704 and store.batch_remove([""]) == [-704]
    assert store.get_replica_desc("") == [] and store.batch_get_replica_desc([""]) == {}
    assert store.batch_replica_clear([""]) == []
    assert store.put("", b"v") == -600 and store.upsert("", b"v") == -600
    assert store.put_parts("", b"v") == -600 and store.put_batch([""], [b"v"]) == -600
    assert store.put_from("", address, 100) == -600 and store.upsert_from("", address, 100) == -600
    assert store.batch_put_from(["good", ""], [address] * 2, [100] * 2) == [0, -600]
    assert store.batch_put_from_multi_buffers([""], [[address]], [[100]]) == [-600]
    assert store.batch_put_session_start([""], [5]) == [-600]
    assert store.is_exist("good") == 1
    del block
