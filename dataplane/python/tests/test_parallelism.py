"""Tensors that are written and read with different splits, over a store in a dictionary."""

import ctypes
import sys

import pytest
from fake_store import FakeStore

from mooncake._not_built import EngramStore, MooncakeDistributedNoFRegister
from mooncake._parallelism import (
    ParallelAxis,
    ParallelTensorCalls,
    ReadTarget,
    TensorParallelism,
    manifest_key,
)
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


def split(rank, size, dim=0, kind="tp"):
    return TensorParallelism([ParallelAxis(kind, rank, size, dim)])


def shard(rank, size, dim=0):
    return grid().tensor_split(size, dim)[rank].contiguous()


def test_a_tensor_without_parallelism_is_a_plain_tensor(store):
    assert store.put_tensor_with_parallelism("k", grid()) == 0
    assert torch.equal(store.get_tensor("k"), grid())
    assert torch.equal(store.get_tensor_with_parallelism("k"), grid())


@pytest.mark.parametrize(("size", "dim"), [(2, 0), (3, 0), (4, 1), (5, 1)])
def test_every_reader_gets_the_split_it_asks_for(store, size, dim):
    assert store.put_tensor_with_parallelism("k", grid(), split(0, 2)) == 0
    assert torch.equal(store.get_tensor_with_parallelism("k", ReadTarget("full")), grid())
    assert torch.equal(store.get_tensor_with_parallelism("k"), grid())
    for rank in range(size):
        target = ReadTarget("shard", split(rank, size, dim))
        got = store.get_tensor_with_parallelism("k", target)
        assert torch.equal(got, shard(rank, size, dim))


def test_a_whole_tensor_can_be_read_in_shards(store):
    assert store.put_tensor("k", grid()) == 0
    got = store.get_tensor_with_parallelism("k", ReadTarget("shard", split(1, 2)))
    assert torch.equal(got, shard(1, 2))


def test_a_missing_shard_is_a_miss(store):
    assert store.put_tensor_with_parallelism("k", grid(), split(0, 2)) == 0
    del store.values["k_tp_1"]
    assert store.get_tensor_with_parallelism("k", ReadTarget("full")) is None


def test_a_manifest_that_is_none_counts_as_no_manifest(store):
    assert store.put_tensor("k", grid()) == 0
    store.values[manifest_key("k")] = b'{"size": "many"}'
    assert torch.equal(store.get_tensor_with_parallelism("k"), grid())


@pytest.mark.parametrize(
    ("parallelism", "partition", "code"),
    [
        (split(0, 2, kind="ep"), None, -1012),
        (TensorParallelism([ParallelAxis("tp", 0, 2), ParallelAxis("tp", 0, 2)]), None, -1012),
        (None, 1, -1012),
        (split(2, 2), None, -600),
        (split(0, 2, dim=2), None, -600),
    ],
)
def test_what_is_not_built_or_wrong_has_its_code(store, parallelism, partition, code):
    put = store.put_tensor_with_parallelism
    assert put("k", grid(), parallelism, None, partition) == code
    assert store.values == {}


def test_tensors_in_memory_go_and_come(store):
    memory = (ctypes.c_ubyte * (HEADER_BYTES + 48 * 4))()
    address = ctypes.addressof(memory)
    assert store.put_tensor("k", grid()) == 0
    into = store.get_tensor_with_parallelism_into
    assert torch.equal(into("k", address, len(memory)), grid())
    assert into("k", address, len(memory) - 1) is None
    put = store.batch_put_tensor_with_parallelism_from
    assert put(["m"], [address], [len(memory)], [split(0, 3)]) == [0]
    assert torch.equal(store.get_tensor_with_parallelism("m"), grid())
    assert put(["m"], [], [], None) == [-600]


def test_an_upsert_replaces_shards_and_split(store):
    assert store.put_tensor_with_parallelism("k", grid(), split(0, 2)) == 0
    assert store.upsert_tensor_with_parallelism("k", grid(), split(0, 3, 1)) == 0
    assert torch.equal(store.get_tensor_with_parallelism("k"), grid())


def test_features_that_are_not_built_say_so():
    with pytest.raises(NotImplementedError, match="Engram"):
        EngramStore(None, None)
    assert MooncakeDistributedNoFRegister().real_register("nqn") == -1012
