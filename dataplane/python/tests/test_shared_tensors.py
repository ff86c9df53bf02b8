"""`create_shared_segment`: tensors that several ranks see, and how a failure of one reaches all."""

import sys
import threading
import types

import pytest

from mooncake.shared_segment import (
    SharedSegmentError,
    create_shared_segment,
    shared_segment_supported,
)

try:
    import torch
except ImportError:
    pytest.importorskip("numpy", reason="neither torch nor numpy is installed")
    import torch_stand_in as torch

BLOCKS = {
    "v": {"count": 2, "shape": (3, 5), "dtype": torch.float32},
    "k": {"count": 3, "shape": (7,), "dtype": torch.uint8},
}
WAIT_S = 60


class Group:
    """Ranks that are threads: `all_gather_object` as torch's gives each the values of all."""

    def __init__(self, world_size):
        self.values = [None] * world_size
        self.barrier = threading.Barrier(world_size)
        self.local = threading.local()

    def all_gather_object(self, into, value, group):
        assert group is self
        self.values[self.local.rank] = value
        self.barrier.wait(WAIT_S)
        into[:] = self.values
        self.barrier.wait(WAIT_S)


@pytest.fixture
def make(monkeypatch):
    """Run `create_shared_segment` on two ranks; return a segment or an error of each."""

    def run(*declarations):
        group = Group(2)
        module = types.ModuleType("torch")
        module.__dict__.update(torch.__dict__)
        module.distributed = group
        monkeypatch.setitem(sys.modules, "torch", module)
        results = [None, None]

        def rank(number):
            group.local.rank = number
            try:
                results[number] = create_shared_segment(
                    "kv", declarations[number], 2, number, comm_group=group
                )
            except SharedSegmentError as error:
                results[number] = error

        threads = [threading.Thread(target=rank, args=(number,)) for number in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(WAIT_S)
        return results

    return run


@pytest.fixture
def alone(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", torch)


def test_ranks_see_each_others_writes_whatever_the_order_of_their_blocks(make):
    owner, reader = make(BLOCKS, dict(reversed(BLOCKS.items())))
    assert owner.base_addr() != reader.base_addr() and owner.total_size() == reader.total_size()
    for name, block in BLOCKS.items():
        mine, seen = owner.tensors(name), reader.tensors(name)
        assert len(mine) == block["count"]
        for tensor in mine:
            assert tuple(tensor.shape) == block["shape"]
            numbers = torch.arange(tensor.numel(), dtype=block["dtype"])
            tensor.copy_(numbers.reshape(block["shape"]))
        assert all(torch.equal(left, right) for left, right in zip(mine, seen))


def test_ranks_that_declare_something_else_all_fail(make):
    for error in make(BLOCKS, {**BLOCKS, "k": {**BLOCKS["k"], "count": 4}}):
        assert isinstance(error, SharedSegmentError)
        assert "rank 0" in str(error) and "rank 1" in str(error)


def test_one_rank_needs_no_group_and_several_do(alone):
    assert len(create_shared_segment("kv", BLOCKS, 1, 0).tensors("k")) == 3
    with pytest.raises(SharedSegmentError, match="comm_group is required"):
        create_shared_segment("kv", BLOCKS, 2, 0)


def test_tensors_outlive_the_segment(alone):
    tensors = create_shared_segment("kv", BLOCKS, 1, 0).tensors("v")
    source = torch.arange(15, dtype=torch.float32).reshape((3, 5))
    tensors[1].copy_(source)
    assert torch.equal(tensors[1], source)


@pytest.mark.parametrize(
    ("blocks", "message"),
    [
        ({}, "at least one block"),
        ({"k": {"count": 1, "shape": (2,)}}, "needs count, shape and dtype"),
        ({"k": {**BLOCKS["k"], "count": 0}}, "positive count"),
        ({"k": {**BLOCKS["k"], "shape": (2, 0)}}, "positive shape"),
    ],
)
def test_impossible_blocks_are_refused(alone, blocks, message):
    with pytest.raises(SharedSegmentError, match=message):
        create_shared_segment("kv", blocks, 1, 0)


def test_unknown_blocks_and_device_memory_are_refused(alone):
    with pytest.raises(SharedSegmentError, match="no block 'x'; blocks are k, v"):
        create_shared_segment("kv", BLOCKS, 1, 0).tensors("x")
    assert shared_segment_supported() and not shared_segment_supported(mmap=False)
    for options in ({"mmap": False}, {"host_register": True}):
        with pytest.raises(SharedSegmentError, match="plain host memory only"):
            create_shared_segment("kv", BLOCKS, 1, 0, **options)
