"""Tensor calls with addresses of an accelerator: run by test_device_tensors.py beside a driver of its own.

The first argument is the master's address.
"""

import ctypes
import sys

import numpy

try:
    import torch
except ImportError:
    import torch_stand_in as torch

    sys.modules["torch"] = torch

from mooncake._tensor import serialize_tensor
from mooncake.store import MooncakeDistributedStore

ROOM = 1 << 20
driver = ctypes.CDLL("libcuda.so.1")
driver.fake_device_memory.restype = ctypes.c_ulong


def to_device(address, data):
    assert driver.cuMemcpyHtoD_v2(ctypes.c_ulong(address), data, ctypes.c_size_t(len(data))) == 0


def of_device(address, size):
    data = ctypes.create_string_buffer(size)
    assert driver.cuMemcpyDtoH_v2(data, ctypes.c_ulong(address), ctypes.c_size_t(size)) == 0
    return data.raw


class Seen:
    """What torch is asked for on an accelerator, where there is none."""

    def __init__(self, memory, device):
        self.memory, self.device = memory.__cuda_array_interface__, device
        self.part = self.kind = self.shape = None

    def __getitem__(self, part):
        self.part = part
        return self

    def view(self, kind):
        self.kind = kind
        return self

    def reshape(self, shape):
        self.shape = tuple(shape)
        return self


def main():
    store = MooncakeDistributedStore()
    assert store.setup("127.0.0.1", "P2PHANDSHAKE", 16 << 20, 4 << 20, "tcp", "", sys.argv[1]) == 0
    torch.as_tensor = lambda memory, device: Seen(memory, device)
    value = torch.arange(60, dtype=torch.float32).reshape((6, 10))
    header, address, size, _memory = serialize_tensor(value)
    block = header + ctypes.string_at(address, size)
    assert driver.cuInit(0) == 0
    base = driver.fake_device_memory()
    source, target = base, base + ROOM
    to_device(source, block)

    assert store.put_tensor_from("whole", source, len(block)) == 0
    assert torch.equal(store.get_tensor("whole"), value)
    assert store.put_tensor_with_tp_from("shards", source, len(block), tp_size=2) == 0
    shard = store.get_tensor_with_tp("shards", tp_rank=1, tp_size=2)
    assert torch.equal(shard, value.tensor_split(2, 0)[1])
    assert store.put_tensor_with_parallelism_from("parallel", source, len(block)) == 0
    assert store.upsert_tensor_with_parallelism_from("parallel", source, len(block)) == 0
    assert store.batch_put_tensor_from(["batch"], [source], [len(block)]) == [0]

    for read in (store.get_tensor_into, store.get_tensor_with_parallelism_into):
        to_device(target, bytes(ROOM))
        key = "whole" if read == store.get_tensor_into else "parallel"
        seen = read(key, target, ROOM)
        assert of_device(target, len(block)) == block
        assert seen.memory["data"] == (target, False) and seen.device == "cuda:3"
        assert seen.part == slice(304, 304 + 240) and seen.kind is torch.float32
        assert seen.shape == (6, 10)
    assert store.get_tensor_into("none", target, ROOM) is None
    end = base + (64 << 20)
    assert store.put_tensor_from("beyond", end - 8, 64) == -600
    assert store.put_tensor_with_tp_from("beyond", end - 8, 512, tp_size=2) == -600
    store.close()
    print("device memory was staged")


main()
