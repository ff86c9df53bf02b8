"""Batches, several buffers per object, ranges and sessions, against a real cluster."""

import ctypes

import pytest
from test_objects import memory, pattern

from mooncake.store import ReplicateConfig

pytestmark = pytest.mark.cluster


class Arena:
    """One block of memory cut into pieces."""

    def __init__(self, size):
        self.block = (ctypes.c_ubyte * size)()
        self.address = ctypes.addressof(self.block)

    def __getitem__(self, span):
        return bytes(self.block[span])

    def fill(self, offset, value):
        ctypes.memmove(self.address + offset, value, len(value))


def exact_ints(values):
    return type(values) is list and all(type(value) is int for value in values)


@pytest.mark.parametrize(("count", "size"), [(1, 1), (128, 4096), (16, 65_537), (3, 4 << 20)])
def test_batch_round_trip(store, count, size):
    keys = [f"k{i}" for i in range(count)]
    values = [pattern(size, i) for i in range(count)]
    source, target = Arena(count * size), Arena(count * size)
    for i, value in enumerate(values):
        source.fill(i * size, value)
    stored = store.batch_put_from(
        keys, [source.address + i * size for i in range(count)], [size] * count
    )
    assert stored == [0] * count and exact_ints(stored)
    read = store.batch_get_into(
        keys, [target.address + i * size for i in range(count)], [size] * count
    )
    assert read == [size] * count and exact_ints(read)
    assert target[:] == source[:]
    exist = store.batch_is_exist(keys + ["none"])
    assert exist == [1] * count + [0] and exact_ints(exist)


def test_results_of_a_batch_are_independent(store):
    block, address, _ = memory(b"0123456789")
    codes = store.batch_put_from(
        ["a", "", "zero", "null", "b"], [address, address, address, 0, address], [4, 4, 0, 4, 10]
    )
    assert codes[0] == codes[4] == 0
    assert codes[1] < 0 and codes[2] == codes[3] == -600
    target = Arena(64)
    read = store.batch_get_into(
        ["a", "none", "b", "b"],
        [target.address, target.address + 8, target.address + 16, target.address + 32],
        [4, 8, 9, 20],
    )
    assert read == [4, -704, -600, 10]
    assert target[:4] == b"0123" and target[4:32] == bytes(28) and target[32:42] == b"0123456789"
    del block


def test_lists_of_different_lengths_are_refused_for_every_key(store):
    block, address, _ = memory(b"0123")
    assert store.batch_put_from(["a", "b"], [address], [1, 1]) == [-600, -600]
    assert store.batch_get_into(["a"], [address, address], [1]) == [-600]
    assert store.batch_put_from_multi_buffers(["a"], [[address, address]], [[1]]) == [-600]
    assert store.batch_get_into_multi_buffers(["a", "b"], [[address]], [[1]]) == [-600, -600]
    config = ReplicateConfig()
    config.group_ids = ["one"]
    assert store.batch_put_from(["a", "b"], [address] * 2, [1, 1], config) == [-600, -600]
    assert store.batch_is_exist(["a", "b"]) == [0, 0]
    del block


def test_empty_batches_answer_empty_lists(store):
    assert store.batch_put_from([], [], []) == []
    assert store.batch_get_into([], [], []) == []
    assert store.batch_is_exist([]) == []
    assert store.get_batch([]) == [] and store.batch_get_buffer([]) == []
    assert store.batch_get_replica_desc([]) == {}
    assert store.batch_remove([]) == []


def test_equal_keys_in_a_batch_all_succeed(store):
    block, address, _ = memory(b"samesame")
    assert store.batch_put_from(["a", "a"], [address, address + 4], [4, 4]) == [0, 0]
    assert store.get("a") == b"same"
    del block


def test_objects_are_gathered_and_scattered(store):
    source, target = Arena(1 << 20), Arena(1 << 20)
    source.fill(0, pattern(1 << 20))
    spans = [[(0, 5), (100, 70_000), (200_000, 1)], [(300_000, 65_536)], [(400_000, 3)] * 2]
    keys = ["a", "b", "c"]
    addresses = [[source.address + offset for offset, _ in key] for key in spans]
    sizes = [[size for _, size in key] for key in spans]
    assert store.batch_put_from_multi_buffers(keys, addresses, sizes) == [0, 0, 0]
    expected = [b"".join(source[o : o + n] for o, n in key) for key in spans]
    assert store.get_batch(keys) == expected
    halves = [[target.address, target.address + 500_000], [target.address + 600_000], [0]]
    room = [[100, len(expected[0]) - 100], [70_000], [6]]
    assert store.batch_get_into_multi_buffers(keys, halves, room) == [
        len(expected[0]),
        -800,
        -600,
    ]
    assert target[:100] == expected[0][:100]
    assert target[500_000 : 500_000 + len(expected[0]) - 100] == expected[0][100:]
    exact = [[target.address + 600_000, target.address + 650_000]]
    assert store.batch_get_into_multi_buffers(["b"], exact, [[50_000, 15_536]]) == [65_536]
    assert target[600_000 : 600_000 + 65_536] == expected[1]


def test_gather_reads_what_scatter_needs_with_the_same_node_flag(store):
    block, address, _ = memory(b"abcdef")
    assert store.batch_put_from_multi_buffers(["k"], [[address, address + 3]], [[3, 3]]) == [0]
    target = Arena(6)
    read = store.batch_get_into_multi_buffers(["k"], [[target.address]], [[6]], True)
    assert read == [6] and target[:] == b"abcdef"
    del block


def test_batch_get_buffer_gives_handles_and_none(store):
    assert store.put_batch(["a", "b"], [b"first", b"second"]) == 0
    first, none, second = store.batch_get_buffer(["a", "none", "b"])
    assert bytes(first) == b"first" and none is None and bytes(memoryview(second)[3:]) == b"ond"


def test_batch_remove_answers_per_key(store):
    assert store.put_batch(["a", "b"], [b"1", b"2"]) == 0
    assert store.batch_remove(["a", "none", "b"], True) == [0, -704, 0]


def test_batch_upsert_replaces(store):
    block, address, _ = memory(b"oldnewer")
    assert store.batch_put_from(["k"], [address], [3]) == [0]
    assert store.batch_upsert_from(["k"], [address + 3], [5]) == [0]
    assert store.get("k") == b"newer"
    del block


def test_groups_are_stored_like_any_object(store):
    config = ReplicateConfig()
    config.group_ids = ["g", "g", "h"]
    block, address, _ = memory(b"abc")
    addresses = [address, address + 1, address + 2]
    assert store.batch_put_from(["a", "b", "c"], addresses, [1] * 3, config) == [0] * 3
    assert store.get_batch(["a", "b", "c"]) == [b"a", b"b", b"c"]
    del block


def test_ranges_are_read_into_place(store):
    assert store.put_batch(["a", "b"], [pattern(200_000, 1), pattern(1000, 2)]) == 0
    target = Arena(300_000)
    results = store.get_into_ranges(
        [target.address, target.address + 200_000],
        [["a", "b"], ["a"]],
        [[[0, 100], [1000]], [[5]]],
        [[[10, 199_990], [0]], [[65_530]]],
        [[[50, 10], [1000]], [[70_000]]],
    )
    assert results == [[[50, 10], [1000]], [[70_000]]]
    assert target[0:50] == pattern(200_000, 1)[10:60]
    assert target[100:110] == pattern(200_000, 1)[199_990:]
    assert target[1000:2000] == pattern(1000, 2)
    assert target[200_005:270_005] == pattern(200_000, 1)[65_530:135_530]


def test_ranges_that_do_not_fit_are_refused_one_by_one(store):
    assert store.put("k", b"0123456789") == 0
    target = Arena(32)
    results = store.get_into_ranges(
        [target.address], [["k", "none"]], [[[0, 8], [16]]], [[[8, 0], [0]]], [[[3, 4], [1]]]
    )
    assert results[0][0][0] < 0 and results[0][0][1] == 4 and results[0][1][0] == -704
    assert target[:8] == bytes(8) and target[8:12] == b"0123"
    wrong_shape = store.get_into_ranges([target.address], [["k"]], [[[0]]], [[[0, 1]]], [[[1, 1]]])
    assert wrong_shape == [[[-600, -600]]]
    no_sizes = store.get_into_ranges([target.address], [["k", "k"]], [[[0]]], [[[0]]], [[[1, 1]]])
    assert no_sizes == [[[-600, -600], [-600]]]


def test_nothing_is_written_behind_a_registered_buffer(store):
    assert store.put("k", b"0123456789") == 0
    target = Arena(64)
    assert store.register_buffer(target.address, 32) == 0
    assert store.get_into_ranges([target.address], [["k"]], [[[31]]], [[[0]]], [[[4]]]) == [[[-600]]]
    assert store.get_into("k", target.address + 30, 34) == -600
    assert target[:64] == bytes(64)
    assert store.get_into_ranges([target.address], [["k"]], [[[28]]], [[[0]]], [[[4]]]) == [[[4]]]
    assert store.register_buffer(target.address + 32, 32) == 0
    assert store.get_into("k", target.address + 30, 34) == 10
    assert target[28:40] == b"01" + b"0123456789"
    assert store.unregister_buffer(target.address) == 0
    assert store.unregister_buffer(target.address + 32) == 0


def test_a_call_whose_lists_disagree_has_a_code_for_each_range(store):
    ranges = [[[0], []]], [[[0, 1], []]], [[[], []]]
    assert store.get_into_ranges([4096], [["k", "k"]], *ranges) == [[[-600, -600], []]]


def test_a_range_without_bytes_reads_nothing(store):
    assert store.put("k", b"0123") == 0
    target = Arena(8)
    ranges = [[[0, 4]]], [[[2, 2]]], [[[0, 2]]]
    assert store.get_into_ranges([target.address], [["k"]], *ranges) == [[[0, 2]]]
    assert target[:8] == bytes(4) + b"23" + bytes(2)


def test_empty_pieces_among_several_are_left_out(store):
    block, address, _ = memory(b"0123456789")
    put = store.batch_put_from_multi_buffers(
        ["a", "b", "none"],
        [[address, 0, address + 5], [0, address], [address, address]],
        [[3, 0, 2], [0, 4], [0, 0]],
    )
    assert put == [0, 0, -600]
    assert store.get_batch(["a", "b", "none"]) == [b"01256", b"0123", b""]
    target = Arena(8)
    pieces = [[target.address, 0, target.address + 4]]
    assert store.batch_get_into_multi_buffers(["a"], pieces, [[3, 0, 2]]) == [5]
    assert target[:8] == b"012\0" + b"56" + bytes(2)
    del block


def test_read_session_reads_layer_by_layer(store):
    values = [pattern(4 * 1024, seed) for seed in range(3)]
    keys = ["a", "b", "c"]
    assert store.put_batch(keys, values) == 0
    assert store.batch_get_session_start(keys) == [0, 0, 0]
    target = Arena(3 * 4096)
    for layer in range(4):
        offsets = [[layer * 1024, layer * 1024 + 512]] * 3
        addresses = [[target.address + i * 4096 + o for o in offsets[i]] for i in range(3)]
        read = store.batch_get_into_multi_buffer_ranges(keys, addresses, [[512, 512]] * 3, offsets)
        assert read == [1024] * 3
    assert target[:] == b"".join(values)
    assert store.batch_get_session_end(keys) == 0
    after = store.batch_get_into_multi_buffer_ranges(["a"], [[target.address]], [[1]], [[0]])
    assert after == [-600]


def test_read_sessions_of_one_key_nest_and_misses_do_not_open(store):
    assert store.put("a", b"value") == 0
    assert store.batch_get_session_start(["a", "none"]) == [0, -704]
    assert store.batch_get_session_start(["a"]) == [0]
    assert store.batch_get_session_end(["a", "none"]) == 0
    target = Arena(8)
    read = store.batch_get_into_multi_buffer_ranges(["a"], [[target.address]], [[5]], [[0]])
    assert read == [5] and target[:5] == b"value"
    assert store.batch_get_session_end(["a"]) == 0


def test_write_session_is_invisible_until_it_ends(store):
    block, address, _ = memory(b"abcdefgh")
    assert store.batch_put_session_start(["a", "b"], [8, 4]) == [0, 0]
    assert store.batch_put_session_start(["a"], [8]) == [-600]
    parts = store.batch_put_from_multi_buffer_ranges(
        ["a", "b"], [[address + 4, address], [address]], [[4, 4], [4]], [[4, 0], [0]]
    )
    assert parts == [8, 4] and exact_ints(parts)
    assert store.batch_is_exist(["a", "b"]) == [0, 0]
    assert store.batch_put_session_end(["a", "none", "b"]) == [0, -600, 0]
    assert store.batch_put_session_start(["a", "c"], [8, 8]) == [-705, 0]
    assert store.batch_put_session_revoke(["c"]) == [0]
    assert store.get_batch(["a", "b"]) == [b"abcdefgh", b"abcd"]
    del block


def test_revoked_write_session_stores_nothing(store):
    block, address, _ = memory(b"abcd")
    assert store.batch_put_session_start(["a", "zero"], [4, 0]) == [0, -600]
    outside = store.batch_put_from_multi_buffer_ranges(
        ["a", "none"], [[address], [address]], [[4], [4]], [[1], [0]]
    )
    assert outside == [-600, -600]
    assert store.batch_put_session_revoke(["a", "none"]) == [0, -600]
    assert store.batch_put_session_end(["a"]) == [-600]
    assert store.is_exist("a") == 0
    del block
