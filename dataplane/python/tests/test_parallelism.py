"""Tensors that are written and read with different splits, over a store in a dictionary."""

import ctypes
import sys

import pytest
from fake_store import FakeStore

from mooncake._not_built import MooncakeDistributedNoFRegister
from mooncake._parallel_calls import ParallelTensorCalls
from mooncake._parallelism import ParallelAxis, ReadTarget, TensorParallelism, manifest_key
from mooncake._tensor import HEADER_BYTES

try:
    import torch
except ImportError:
    pytest.importorskip("numpy", reason="neither torch nor numpy is installed")
    import torch_stand_in as torch


class ParallelStore(ParallelTensorCalls, FakeStore):
    pass


@pytest.fixture(autouse=True)
def torch_module(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", torch)


@pytest.fixture
def store():
    return ParallelStore()


def grid():
    return torch.arange(48, dtype=torch.float32).reshape((6, 8))


def tp(rank, size, dim=0):
    return ParallelAxis("tp", rank, size, dim)


def split(rank, size, dim=0, *axes):
    return TensorParallelism([tp(rank, size, dim), *axes])


def shard(rank, size, dim=0):
    return grid().tensor_split(size, dim)[rank].contiguous()


def put_parts(store, key="k", size=2, dim=0, put="put_tensor_with_parallelism"):
    for rank in range(size):
        assert getattr(store, put)(key, shard(rank, size, dim), split(rank, size, dim)) == 0


DP = ParallelAxis("dp", 1, 2)
EP = ParallelAxis("ep", 0, 2, expert_id=11)
PP = ParallelAxis("pp", 1, 2, stage_id=7)


def test_a_tensor_without_parallelism_is_a_plain_tensor(store):
    assert store.put_tensor_with_parallelism("k", grid()) == 0
    for target in (None, ReadTarget(), ReadTarget("full")):
        assert torch.equal(store.get_tensor_with_parallelism("k", target), grid())
    assert torch.equal(store.get_tensor("k"), grid())


@pytest.mark.parametrize(("size", "dim"), [(2, 0), (3, 0), (4, 1), (8, 1), (2, -1)])
def test_parts_of_all_ranks_are_read_in_any_split(store, size, dim):
    put_parts(store)
    assert torch.equal(store.get_tensor_with_parallelism("k", ReadTarget("full")), grid())
    for rank in range(size):
        target = ReadTarget("shard", split(rank, size, dim))
        got = store.get_tensor_with_parallelism("k", target)
        assert torch.equal(got, shard(rank, size, dim))
        if (size, dim) == (2, 0):
            assert torch.equal(store.get_tensor_with_tp("k", rank, size), got)


def test_a_rank_of_a_tp_axis_alone_gives_its_part_and_no_other_is_there(store):
    assert store.put_tensor_with_parallelism("k", shard(0, 3), split(0, 3)) == 0
    read = store.get_tensor_with_parallelism
    assert torch.equal(read("k", ReadTarget("shard", split(0, 3))), shard(0, 3))
    assert torch.equal(read("k", ReadTarget("as_stored", split(0, 3))), shard(0, 3))
    assert read("k", ReadTarget("shard", split(1, 3))) is None
    assert read("k", ReadTarget("full")) is None
    assert read("k") is None


@pytest.mark.parametrize("axes", [[DP], [EP], [PP], [DP, PP], [EP, PP, DP]])
def test_a_rank_of_several_axes_gives_the_whole_tensor_and_axes_have_no_order(store, axes):
    for rank in range(2):
        assert store.put_tensor_with_parallelism("k", grid(), split(rank, 2, 1, *axes)) == 0
    wanted = TensorParallelism([*reversed(axes), tp(1, 2, 1)])
    read = store.get_tensor_with_parallelism
    assert torch.equal(read("k", ReadTarget("shard", wanted)), shard(1, 2, 1))
    assert torch.equal(read("k", ReadTarget("full", wanted)), grid())
    assert torch.equal(read("k", ReadTarget("shard", split(2, 3, 0, *axes))), shard(2, 3))
    assert read("k", ReadTarget("shard", split(2, 4, 0, *axes))) is None


def test_experts_and_stages_are_different_tensors_and_dp_ranks_are_not(store):
    assert store.put_tensor_with_parallelism("k", grid(), TensorParallelism([EP])) == 0
    assert store.put_tensor_with_parallelism("k", shard(0, 2), TensorParallelism([PP])) == 0
    read = store.get_tensor_with_parallelism
    assert torch.equal(read("k", ReadTarget("full", TensorParallelism([EP]))), grid())
    assert torch.equal(read("k", ReadTarget("full", TensorParallelism([PP]))), shard(0, 2))
    other = ParallelAxis("ep", 0, 2, expert_id=12)
    assert read("k", ReadTarget("full", TensorParallelism([other]))) is None
    either = ParallelAxis("dp", 0, 2)
    assert torch.equal(read("k", ReadTarget("full", TensorParallelism([EP, either]))), grid())


class Partition:
    def __init__(self, rank, size, split_dim):
        self.rank, self.size, self.split_dim = rank, size, split_dim


def test_writer_partitions_cut_their_part_out_of_the_whole_tensor(store):
    put = store.batch_put_tensor_with_parallelism
    for rank in range(2):
        parts = [Partition(rank, 2, 0), Partition(rank, 2, 1)]
        assert put(["a", "b"], [grid(), grid()], writer_partitions=parts) == [0, 0]
    targets = [ReadTarget("full"), ReadTarget("shard", split(2, 4, 1))]
    whole, part = store.batch_get_tensor_with_parallelism(["a", "b"], targets)
    assert torch.equal(whole, grid()) and torch.equal(part, shard(2, 4, 1))
    assert put(["c"], [grid()], [split(0, 2)], None, [Partition(0, 2, 0)]) == [-600]


def test_a_whole_tensor_can_be_read_in_shards(store):
    assert store.put_tensor("k", grid()) == 0
    got = store.get_tensor_with_parallelism("k", ReadTarget("shard", split(1, 2)))
    assert torch.equal(got, shard(1, 2))
    assert store.get_tensor_with_parallelism("k", ReadTarget("shard", split(1, 2, 5))) is None


def test_a_missing_shard_is_a_miss(store):
    put_parts(store)
    del store.values["k_tp_1"]
    assert store.get_tensor_with_parallelism("k", ReadTarget("full")) is None


def test_a_manifest_that_is_none_counts_as_no_manifest(store):
    assert store.put_tensor("k", grid()) == 0
    store.values[manifest_key("k")] = b'{"size": "many"}'
    assert torch.equal(store.get_tensor_with_parallelism("k", ReadTarget("full")), grid())


@pytest.mark.parametrize(
    ("parallelism", "partition"),
    [
        (TensorParallelism([ParallelAxis("xp", 0, 2)]), None),
        (TensorParallelism([tp(0, 2), tp(1, 2)]), None),
        (TensorParallelism([ParallelAxis("dp", 0, 2, split_dim=0)]), None),
        (TensorParallelism([ParallelAxis("ep", 0, 2)]), None),
        (TensorParallelism([ParallelAxis("dp", 2, 2)]), None),
        (split(2, 2), None),
        (split(-1, 2), None),
        (split(0, 2, 2), None),
        (split(0, 5, 0, DP), None),
        (None, Partition(3, 3, 0)),
        (None, Partition(0, 3, 2)),
        (None, Partition(0, 5, 0)),
        (None, 1),
    ],
)
def test_wrong_axes_are_refused_and_nothing_is_stored(store, parallelism, partition):
    put = store.put_tensor_with_parallelism
    assert put("k", grid(), parallelism, None, partition) == -600
    assert store.values == {}


def test_types_are_checked_when_they_are_assigned():
    for name, value in (("kind", 1), ("rank", "0"), ("size", None), ("split_dim", 1.0)):
        with pytest.raises(TypeError, match=name):
            setattr(ParallelAxis(), name, value)
    with pytest.raises(TypeError, match="ParallelAxis"):
        TensorParallelism().axes = [1]
    with pytest.raises(RuntimeError, match="Unsupported ReadTarget mode"):
        ReadTarget("some")
    assert store_miss(ReadTarget("shard"))


def store_miss(target):
    return ParallelStore().get_tensor_with_parallelism("k", target) is None


def test_tensors_in_memory_go_and_come(store):
    memory = (ctypes.c_ubyte * (HEADER_BYTES + 48 * 4))()
    address = ctypes.addressof(memory)
    assert store.put_tensor("k", grid()) == 0
    into = store.get_tensor_with_parallelism_into
    assert torch.equal(into("k", address, len(memory)), grid())
    assert into("k", address, len(memory) - 1) is None
    put = store.batch_put_tensor_with_parallelism_from
    for rank in range(3):
        assert put(["m"], [address], [len(memory)], [split(rank, 3, 0, DP)]) == [0]
    assert torch.equal(store.get_tensor_with_parallelism("m", ReadTarget("full")), grid())
    assert put(["m"], [], [], None) == [-600]


def test_an_upsert_replaces_shards_and_split(store):
    put_parts(store)
    put_parts(store, size=4, dim=1, put="upsert_tensor_with_parallelism")
    assert torch.equal(store.get_tensor_with_parallelism("k", ReadTarget("full")), grid())


def test_a_manifest_belongs_to_the_group_of_its_tensor(store):
    class Config:
        group_ids = ["a", "b", "c"]

    seen = {}
    put, batch = store.put, store.batch_put_from_multi_buffers

    def put_one(key, value, config=None):
        if config is not None:
            seen[key] = config.group_ids
        return put(key, value)

    def put_all(keys, addresses, sizes, config=None):
        seen.update(zip(keys, ([group] for group in config.group_ids), strict=True))
        return batch(keys, addresses, sizes)

    store.put, store.batch_put_from_multi_buffers = put_one, put_all
    write, config = store.batch_put_tensor_with_parallelism, Config()
    # The second key has no tensor: the groups of the others stay theirs.
    codes = write(["k", "l", "m"], [grid(), 7, grid()], [split(0, 2), None, None], config)
    assert codes == [0, -600, 0] and config.group_ids == ["a", "b", "c"]
    assert seen == {"k_tp_0": ["a"], "k__parallelism_manifest": ["a"], "m": ["c"]}
    assert write(["k", "l"], [grid()] * 2, None, config) == [-600, -600]


def test_what_one_object_holds_is_read_into_memory_at_once(store, monkeypatch):
    put_parts(store)
    memory = ctypes.create_string_buffer(HEADER_BYTES + 1000)
    read = []
    into = store.batch_get_into
    monkeypatch.setattr(store, "batch_get_into", lambda *it: read.append(it[0]) or into(*it))
    target = ReadTarget("shard", split(1, 2))
    found = store.get_tensor_with_parallelism_into(
        "k", ctypes.addressof(memory), len(memory), target
    )
    assert torch.equal(found, store.get_tensor_with_parallelism("k", target))
    assert read == [["k_tp_1"]]


def test_parts_of_another_split_are_read_to_their_places_without_a_copy(store, monkeypatch):
    put_parts(store, size=3)
    memory = ctypes.create_string_buffer(HEADER_BYTES + 1000)
    ranges = []
    into = store.get_into_ranges
    monkeypatch.setattr(store, "get_into_ranges", lambda *it: ranges.append(it) or into(*it))
    for read_whole in ("batch_get_buffer", "batch_get_into"):
        monkeypatch.setattr(store, read_whole, lambda *_: pytest.fail("a part was read whole"))
    target = ReadTarget("shard", split(1, 2))
    address = ctypes.addressof(memory)
    found = store.get_tensor_with_parallelism_into("k", address, len(memory), target)
    assert torch.equal(found, shard(1, 2))
    # Headers of all parts, then only the rows that are wanted.
    (_, headers, *_), (addresses, keys, targets, sources, sizes) = ranges
    assert headers == [["k_tp_0", "k_tp_1", "k_tp_2"]]
    # The headers are read once more with the data, so that both are of one version.
    assert (addresses[1:], keys) == ([address], [*headers, ["k_tp_1", "k_tp_2"]])
    row = 8 * 4
    assert sources[1] == [[HEADER_BYTES + row], [HEADER_BYTES]]
    assert targets[1] == [[HEADER_BYTES], [HEADER_BYTES + row]]
    assert sizes[1] == [[row], [2 * row]]
    assert store.get_tensor_with_parallelism_into("k", address, HEADER_BYTES, target) is None


@pytest.mark.parametrize("few", [0, 1 << 12])
def test_any_box_of_any_tensor_is_put_together(store, monkeypatch, few):
    monkeypatch.setattr("mooncake._read_plan.FEW_PIECES", few)
    whole = torch.arange(4 * 6 * 10, dtype=torch.float32).reshape((4, 6, 10))
    memory = ctypes.create_string_buffer(HEADER_BYTES + 4096)
    for size, dim in [(2, 0), (3, 1), (5, 2), (4, 0)]:
        key = f"k-{size}-{dim}"
        for rank in range(size):
            part = whole.tensor_split(size, dim)[rank].contiguous()
            assert store.put_tensor_with_parallelism(key, part, split(rank, size, dim)) == 0
        for to_size, to_dim in [(1, 0), (2, 0), (2, 1), (6, -2), (2, 2), (10, -1)]:
            for rank in range(to_size):
                target = ReadTarget("shard", split(rank, to_size, to_dim))
                wanted = whole.tensor_split(to_size, to_dim)[rank].contiguous()
                got = store.get_tensor_with_parallelism(key, target)
                assert torch.equal(got, wanted), (size, dim, to_size, to_dim, rank)
                row = (key, ctypes.addressof(memory), len(memory), target)
                assert torch.equal(store.get_tensor_with_parallelism_into(*row), wanted)


def test_parts_that_do_not_fit_together_are_no_tensor(store):
    put_parts(store)
    assert store.upsert_tensor("k_tp_1", torch.arange(8, dtype=torch.float32)) == 0
    assert store.get_tensor_with_parallelism("k", ReadTarget("full")) is None
    assert store.remove("k_tp_1", True) == 0
    assert store.get_tensor_with_parallelism("k", ReadTarget("full")) is None


@pytest.mark.parametrize("times", [1, 100])
def test_a_part_that_is_replaced_while_it_is_read_gives_no_mixture(store, monkeypatch, times):
    put_parts(store)
    into, calls = store.get_into_ranges, []

    def read(*columns):
        if len(columns[0]) == 2 and len(calls) < times:
            calls.append(columns)
            # As many bytes, but other rows: what was planned is not there any more.
            for rank in range(2):
                part = grid().reshape((12, 4) if len(calls) % 2 else (6, 8)).tensor_split(2, 0)
                assert store.upsert_tensor(f"k_tp_{rank}", part[rank].contiguous()) == 0
        return into(*columns)

    monkeypatch.setattr(store, "get_into_ranges", read)
    found = store.get_tensor_with_parallelism("k", ReadTarget("full"))
    if times == 1:
        assert torch.equal(found, grid().reshape((12, 4)))
    else:
        assert found is None


def test_a_batch_reads_all_whole_objects_in_one_call(store, monkeypatch):
    for key in "abc":
        assert store.put_tensor(key, grid()) == 0
    put_parts(store)
    calls = []
    read = store.batch_get_tensor
    monkeypatch.setattr(store, "batch_get_tensor", lambda keys: calls.append(keys) or read(keys))
    targets = [None, ReadTarget("full"), None, ReadTarget("shard")]
    found = store.batch_get_tensor_with_parallelism(["a", "k", "c", "b"], targets)
    assert [torch.equal(it, grid()) for it in found[:3]] == [True] * 3 and found[3] is None
    assert calls == [["a", "c"]]


def test_features_that_are_not_built_say_so():
    assert MooncakeDistributedNoFRegister().real_register("nqn") == -1012
