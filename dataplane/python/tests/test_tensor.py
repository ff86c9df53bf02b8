"""Tensor calls over a store in a dictionary, with torch or what stands in for it."""

import ctypes
import sys
import types

import pytest
from fake_store import FakeStore

from mooncake._tensor import (
    HEADER_BYTES,
    TensorCalls,
    deserialize_tensor,
    serialize_tensor,
    tensor_metadata_size,
)

try:
    import torch
except ImportError:
    pytest.importorskip("numpy", reason="neither torch nor numpy is installed")
    import torch_stand_in as torch


class TensorStore(TensorCalls, FakeStore):
    pass


@pytest.fixture(autouse=True)
def torch_module(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", torch)


@pytest.fixture
def store():
    return TensorStore()


def grid(*shape, dtype=None):
    count = 1
    for length in shape:
        count *= length
    return torch.arange(count, dtype=dtype or torch.float32).reshape(shape)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "uint8"])
@pytest.mark.parametrize("shape", [(1,), (3, 5), (2, 3, 4), (0, 4), (1,) * 8])
def test_tensor_comes_back_equal(store, shape, dtype):
    value = grid(*shape, dtype=getattr(torch, dtype))
    assert store.put_tensor("k", value) == 0
    got = store.get_tensor("k")
    assert tuple(got.shape) == shape and torch.equal(got, value)


def test_object_is_a_header_and_the_bytes(store):
    value = grid(4)
    assert store.put_tensor("k", value) == 0
    stored = store.values["k"]
    assert len(stored) == HEADER_BYTES + 16 and tensor_metadata_size() == HEADER_BYTES
    assert stored[:4] == (0x4D4F4F4E).to_bytes(4, "little")
    header, address, size, memory = serialize_tensor(value)
    assert header + ctypes.string_at(address, size) == stored
    assert memory.data_ptr() == address
    assert torch.equal(deserialize_tensor(stored), value)


def test_misses_and_other_objects_are_none(store):
    store.put("bytes", b"x" * 1000)
    store.put("short", b"x")
    header, address, size, _memory = serialize_tensor(grid(4))
    store.put("cut", header + ctypes.string_at(address, size - 1))
    assert store.batch_get_tensor(["none", "bytes", "short", "cut"]) == [None] * 4


def test_batch_keeps_what_can_be_stored(store):
    codes = store.batch_put_tensor(["a", "b", "c"], [grid(2), "no tensor", grid(3)])
    assert codes == [0, -600, 0]
    a, b, c = store.batch_get_tensor(["a", "b", "c"])
    assert b is None and torch.equal(a, grid(2)) and torch.equal(c, grid(3))
    assert store.batch_put_tensor(["a"], []) == [-600]


def test_unknown_kinds_are_refused(store):
    assert store.put_tensor("k", torch.empty((2,), dtype=torch.complex64)) == -600
    assert store.put_tensor("k", grid(*[1] * 9)) == -600


def test_upsert_replaces_and_put_does_not(store):
    assert store.put_tensor("k", grid(2)) == 0
    assert store.pub_tensor("k", grid(3), None) == 0
    assert torch.equal(store.get_tensor("k"), grid(2))
    assert store.upsert_tensor("k", grid(4)) == 0
    assert torch.equal(store.get_tensor("k"), grid(4))
    assert store.batch_upsert_pub_tensor(["k"], [grid(5)], None) == [0]
    assert torch.equal(store.get_tensor("k"), grid(5))


def test_tensor_is_read_into_given_memory(store):
    value = grid(3, 4)
    assert store.put_tensor("k", value) == 0
    room = (ctypes.c_ubyte * 4096)()
    got = store.get_tensor_into("k", ctypes.addressof(room), 4096)
    assert torch.equal(got, value)
    room[HEADER_BYTES] = 1
    assert not torch.equal(got, value)
    assert store.get_tensor_into("none", ctypes.addressof(room), 4096) is None
    assert store.get_tensor_into("k", ctypes.addressof(room), 10) is None


def test_tensor_is_copied_into_a_given_one(store):
    assert store.put_tensor("k", grid(3)) == 0
    target = torch.empty((3,), dtype=torch.float32)
    assert store.get_tensor_into_cuda("k", target) == 12
    assert torch.equal(target, grid(3))
    assert store.get_tensor_into_cuda("none", target) == -704
    assert store.get_tensor_into_cuda("k", torch.empty((2,), dtype=torch.float32)) == -600


def test_shards_are_parts_along_the_dimension(store):
    assert store.put_tensor_with_tp("k", grid(4, 6), tp_size=2, split_dim=1) == 0
    assert sorted(store.values) == ["k_tp_0", "k_tp_1"]
    left, right = (store.get_tensor_with_tp("k", rank, 2) for rank in range(2))
    assert tuple(left.shape) == tuple(right.shape) == (4, 3)
    assert torch.equal(store.batch_get_tensor_with_tp(["k"], 1, 2)[0], right)
    whole = grid(4, 6).tensor_split(2, 1)
    assert torch.equal(left, whole[0].contiguous()) and torch.equal(right, whole[1].contiguous())


def test_one_shard_is_the_plain_tensor(store):
    assert store.put_tensor_with_tp("k", grid(4)) == 0
    assert torch.equal(store.get_tensor("k"), grid(4))
    assert torch.equal(store.get_tensor_with_tp("k"), grid(4))


def test_impossible_split_is_refused(store):
    assert store.put_tensor_with_tp("k", grid(4), tp_size=2, split_dim=3) == -600


def test_shards_are_made_of_header_and_data_in_memory(store):
    header, address, size, _memory = serialize_tensor(grid(4))
    block = header + ctypes.string_at(address, size)
    memory = (ctypes.c_ubyte * len(block)).from_buffer_copy(block)
    address = ctypes.addressof(memory)
    assert store.put_tensor_from("whole", address, len(block)) == 0
    assert torch.equal(store.get_tensor("whole"), grid(4))
    assert store.put_tensor_with_tp_from("k", address, len(block), tp_size=2) == 0
    assert torch.equal(store.get_tensor_with_tp("k", 0, 2), grid(2))
    assert store.put_tensor_with_tp_from("k", address, 3, tp_size=2) == -600


@pytest.fixture
def safetensors(monkeypatch):
    """Files of tensors, where the package is not installed: a dictionary by name."""
    files, module = {}, types.ModuleType("safetensors.torch")
    module.save_file = lambda tensors, name: files.update({name: tensors})
    module.load_file = files.__getitem__
    monkeypatch.setitem(sys.modules, "safetensors", types.ModuleType("safetensors"))
    monkeypatch.setitem(sys.modules, "safetensors.torch", module)
    return files


def test_a_tensor_goes_to_a_file_named_as_its_key_and_comes_back_under_another(store, safetensors):
    tensor = grid(2, 3)
    assert store.put_tensor("k", tensor) == 0
    assert store.save_tensor_to_safetensor("k") == 0 and list(safetensors) == ["k"]
    assert torch.equal(store.load_tensor_from_safetensor("other", "k"), tensor)
    assert torch.equal(store.get_tensor("other"), tensor)


def test_files_without_the_tensor_are_none(store, safetensors):
    assert store.save_tensor_to_safetensor("missing") < 0
    assert store.load_tensor_from_safetensor("k", "missing") is None
    safetensors["two"] = {"a": grid(2), "b": grid(3)}
    assert store.load_tensor_from_safetensor("c", "two") is None
    assert store.load_tensor_from_safetensor(None, "two") is None
    assert torch.equal(store.load_tensor_from_safetensor("b", "two"), grid(3))


def test_lists_of_different_lengths_have_a_code_per_key(store):
    assert store.batch_get_tensor_into(["a", "b"], [1], [1]) == [-600, -600]
