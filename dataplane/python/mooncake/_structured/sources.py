"""Memory that payloads are written from or read into, where it is not simply bytes or an array."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class ScatteredPayload:
    """One payload that lies in several buffers, in this order.

    With `dtype` and `shape` it is read back as an array, without as bytes. It keeps its `owners`.
    """

    buffers: tuple[memoryview, ...]
    owners: tuple[Any, ...] = ()
    dtype: str | None = None
    shape: tuple[int, ...] | None = None

    @property
    def nbytes(self) -> int:
        """The bytes of all buffers."""
        return sum(buffer.nbytes for buffer in self.buffers)


@dataclass(frozen=True)
class TensorObjectBuffer:
    """Registered memory with a tensor's header and data, as source or destination."""

    ptr: int
    size: int
    owner: Any = None
    batch_size: int | None = None

    def __len__(self) -> int:
        if self.batch_size is None:
            raise TypeError("a tensor_object_buffer in a batch needs its batch_size")
        return self.batch_size


@dataclass(frozen=True)
class RawDestination:
    """Memory to read into; `pre_registered` says that the store knows it."""

    ptr: int
    size: int
    owner: Any = None
    pre_registered: bool = False


def tensor_object_buffer(
    ptr: int, size: int, owner: Any = None, batch_size: int | None = None
) -> TensorObjectBuffer:
    """Describe registered memory that holds header and data of a tensor."""
    return TensorObjectBuffer(int(ptr), int(size), owner, batch_size)


def raw_destination(
    ptr: int, size: int, owner: Any = None, *, pre_registered: bool = False
) -> RawDestination:
    """Describe memory that a member is read into."""
    return RawDestination(int(ptr), int(size), owner, pre_registered)


def flat_view(value: Any, name: str) -> memoryview:
    """Return the bytes of a value that has a buffer; TypeError if it has none."""
    try:
        view = memoryview(value)
    except TypeError:
        raise TypeError(f"member {name!r} of type {type(value).__name__} has no bytes") from None
    if not view.nbytes:
        return memoryview(b"")
    return memoryview(view.tobytes() if not view.c_contiguous else view).cast("B")


def address_of(view: memoryview) -> int:
    """Return the address of a view's first byte, also of a read-only one."""
    return int(np.frombuffer(view, dtype=np.uint8).ctypes.data)


def array_bytes(array: np.ndarray) -> memoryview:
    """Return the bytes of an array in row-major order, without a copy if it lies so."""
    flat = np.ascontiguousarray(array).reshape(-1)
    return memoryview(flat.view(np.uint8).data) if flat.size else memoryview(b"")


def chunks_of(buffers: Sequence[memoryview], chunk_bytes: int) -> Iterator[list[memoryview]]:
    """Yield the pieces of each chunk: `chunk_bytes` each, the last may be shorter."""
    pieces: list[memoryview] = []
    room = chunk_bytes
    for buffer in buffers:
        while buffer.nbytes:
            piece, buffer = buffer[:room], buffer[room:]
            pieces.append(piece)
            room -= piece.nbytes
            if not room:
                yield pieces
                pieces, room = [], chunk_bytes
    if pieces:
        yield pieces


def copy_pieces(pieces: Sequence[memoryview], target: memoryview) -> None:
    """Copy the pieces one after the other to the start of `target`."""
    ends = itertools.accumulate(piece.nbytes for piece in pieces)
    for piece, end in zip(pieces, ends):
        target[end - piece.nbytes : end] = piece
