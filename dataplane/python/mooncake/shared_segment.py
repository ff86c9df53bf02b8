"""Tensors in host memory that all ranks of a group share: one rank writes, the others read.

Every rank calls `create_shared_segment` with the same declaration; `tensors` then gives views of the
shared pages. It needs torch, and all ranks on one host under one user.
"""

from __future__ import annotations

import ctypes
import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ._perigee import say_without_effect
from .engine import SharedSegment as _Memory

logger = logging.getLogger("mooncake.engine")

__all__ = [
    "SharedSegment",
    "SharedSegmentError",
    "create_shared_segment",
    "shared_segment_supported",
]

ALIGNMENT = 4096


class SharedSegmentError(RuntimeError):
    """The segment cannot be made, or has no such block."""


def shared_segment_supported(mmap: bool = True, host_register: bool = False) -> bool:
    """Return whether this build shares such memory: plain host memory only."""
    return _Memory.supported(mmap, host_register)


@dataclass(frozen=True)
class _Block:
    """`count` tensors of one shape and type; the first begins at `offset`."""

    count: int
    shape: tuple[int, ...]
    dtype: Any
    nbytes: int
    offset: int


def _blocks(declared: Mapping[str, Mapping[str, Any]]) -> tuple[dict[str, _Block], int]:
    """Return the blocks by name and the bytes from one tensor of a block to its next.

    Sorted by name, so that ranks agree whatever the order of their declarations.
    """
    blocks: dict[str, _Block] = {}
    stride = 0
    for name in sorted(declared):
        blocks[name] = block = _block(name, declared[name], stride)
        stride += -(-block.nbytes // ALIGNMENT) * ALIGNMENT
    if not blocks:
        raise SharedSegmentError("A shared segment needs at least one block")
    return blocks, stride


def _block(name: str, declared: Mapping[str, Any], offset: int) -> _Block:
    import torch

    try:
        count, dtype = int(declared["count"]), declared["dtype"]
        shape = tuple(int(size) for size in declared["shape"])
        item_bytes = torch.empty(0, dtype=dtype).element_size()
    except (KeyError, TypeError, ValueError) as error:
        raise SharedSegmentError(f"Block {name!r} needs count, shape and dtype") from error
    if count <= 0 or not shape or min(shape) <= 0:
        raise SharedSegmentError(f"Block {name!r} needs a positive count and a positive shape")
    return _Block(count, shape, dtype, math.prod(shape) * item_bytes, offset)


class SharedSegment:
    """A segment that is mapped in this rank; it lives as long as it or one of its tensors does."""

    def __init__(self, memory: _Memory, blocks: dict[str, _Block], stride: int) -> None:
        self._memory = memory
        self._blocks = blocks
        self._stride = stride

    def tensors(self, block: str) -> list[Any]:
        """Return views of all tensors of a block, in their order; nothing is copied."""
        import torch

        found = self._blocks.get(block)
        if found is None:
            known = ", ".join(self._blocks)
            raise SharedSegmentError(f"There is no block {block!r}; blocks are {known}")
        views = []
        for index in range(found.count):
            address = self.base_addr() + found.offset + index * self._stride
            memory = (ctypes.c_ubyte * found.nbytes).from_address(address)
            # torch keeps the array alive, and the array the mapping.
            memory.segment = self._memory
            flat = torch.frombuffer(memory, dtype=found.dtype, count=-1, offset=0)
            views.append(flat.reshape(found.shape))
        return views

    def base_addr(self) -> int:
        """Return the address of the first byte in this process."""
        return self._memory.base_addr()

    def total_size(self) -> int:
        """Return the bytes of the segment."""
        return self._memory.size()


def create_shared_segment(
    name: str,
    blocks: Mapping[str, Mapping[str, Any]],
    world_size: int,
    rank_id: int,
    owner_rank: int = 0,
    device_id: int | None = None,
    comm_group: Any = None,
    mmap: bool = True,
    host_register: bool = False,
    *,
    tp_group: Any = None,
) -> SharedSegment:
    """Return this rank's view of a segment that the ranks make together.

    blocks: name to `count`, `shape` and `dtype`. `comm_group` is the process group of the ranks, or
    an object that has one as `cpu_group`; only a world of one rank needs none. `tp_group` is its
    older name. If one rank fails, all raise SharedSegmentError and say which.
    """
    if not shared_segment_supported(mmap, host_register):
        raise SharedSegmentError(
            "This build shares plain host memory only: leave mmap=True and host_register=False"
        )
    if device_id is not None:
        say_without_effect(logger.name, "create_shared_segment", "device_id")
    if comm_group is not None and tp_group not in (None, comm_group):
        raise SharedSegmentError("Pass comm_group only; tp_group is its older name")
    ranks = _Ranks(comm_group if tp_group is None else tp_group, world_size)
    layout, stride = _blocks(blocks)
    total = stride * max(block.count for block in layout.values())
    try:
        # The layout is part of the name, so `complete` refuses ranks that declare another one.
        memory, blob = _Memory.create(
            f"{name}|{layout}", total, world_size, rank_id, owner_rank
        )
    except RuntimeError as error:
        memory, blob = None, error
    blobs = ranks.gather(blob, "create")
    try:
        memory.complete(blobs)
        done: bytes | Exception = b""
    except RuntimeError as error:
        done = error
    ranks.gather(done, "complete")
    return SharedSegment(memory, layout, stride)


class _Ranks:
    """The ranks of a group, which exchange one value each."""

    def __init__(self, group: Any, world_size: int) -> None:
        if group is None and world_size > 1:
            raise SharedSegmentError("comm_group is required when world_size is above 1")
        self._group = getattr(group, "cpu_group", None) or group
        self._world_size = world_size

    def gather(self, mine: bytes | Exception, phase: str) -> list[bytes]:
        """Return the values of all ranks; raise SharedSegmentError if one of them failed."""
        failed, value = isinstance(mine, Exception), mine
        pair = (str(value) if failed else None, b"" if failed else value)
        pairs: Sequence[Any] = [pair]
        if self._world_size > 1:
            from torch import distributed

            pairs = [None] * self._world_size
            distributed.all_gather_object(pairs, pair, group=self._group)
        errors = [f"rank {rank}: {why}" for rank, (why, _) in enumerate(pairs) if why is not None]
        if errors:
            raise SharedSegmentError(f"Shared segment {phase} failed: {'; '.join(errors)}")
        return [blob for _, blob in pairs]
