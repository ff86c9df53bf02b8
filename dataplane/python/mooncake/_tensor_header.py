"""The header in front of a stored tensor: Mooncake's `TensorMetadata`, 304 bytes.

What is written is the form of Mooncake 0.3.11 and newer. What is read may also be the form of this
project before it had that one, and Mooncake's older form, which has no magic number.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from typing import Any, Sequence

MAGIC = 0x4D4F4F4E
VERSION = 1
MAX_DIMENSIONS = 8
MAX_AXES = 4
LAYOUT_FULL, LAYOUT_SHARD = 0, 1
AXIS_TP = 1
MISSING = -1

# magic, version, header bytes, dtype, dimensions, layout, flags, data offset, data bytes
_START = struct.Struct("<I2H2i2I2Q")
_SHAPE = struct.Struct(f"<{MAX_DIMENSIONS}q")
# number of axes, reserved
_AXES = struct.Struct("<2I")
# kind, number of the axis, rank, size, dimension, expert or stage, rows of the part
_AXIS = struct.Struct("<6iq")
HEADER_BYTES = _START.size + 2 * _SHAPE.size + _AXES.size + MAX_AXES * _AXIS.size
_LOCAL_SHAPE = _START.size + _SHAPE.size
_AXIS_COUNT = _LOCAL_SHAPE + _SHAPE.size

# Of this project before: magic, version, header bytes, dtype, dimensions, layout, shape, data
# offset, data bytes, in 256 bytes.
_BEFORE = struct.Struct(f"<6I{MAX_DIMENSIONS}q2Q")
_BEFORE_BYTES = 256
# Of Mooncake before: dtype, dimensions, shape.
_BARE = struct.Struct("<2i4q")
#: The shortest header of all forms.
SHORTEST_BYTES = _BARE.size

#: The index is the number in the header.
DTYPES = (
    "float32 float64 int8 uint8 int16 uint16 int32 uint32 int64 uint64 bool float16 bfloat16 "
    "float8_e4m3fn float8_e5m2"
).split()
ITEM_BYTES = (4, 8, 1, 1, 2, 2, 4, 4, 8, 8, 1, 2, 2, 1, 1)


@dataclass(frozen=True)
class Shard:
    """Which part of a whole a tensor is: `rank` of `size` parts along dimension `dim`."""

    whole: tuple[int, ...]
    rank: int
    size: int
    dim: int


@dataclass(frozen=True)
class TensorHeader:
    """What a header says: dtype by its name in torch, shape, and where the data lie."""

    dtype: str
    shape: tuple[int, ...]
    data_offset: int
    data_bytes: int


def write_header(dtype: str, shape: Sequence[int], shard: Shard | None = None) -> bytes:
    """Return the header of a tensor; ValueError if it has none."""
    if dtype not in DTYPES or len(shape) > MAX_DIMENSIONS:
        raise ValueError(f"tensors of {dtype} with {len(shape)} dimensions cannot be stored")
    kind = DTYPES.index(dtype)
    data_bytes = math.prod(shape) * ITEM_BYTES[kind]
    layout = LAYOUT_FULL if shard is None else LAYOUT_SHARD
    size = HEADER_BYTES
    start = _START.pack(MAGIC, VERSION, size, kind, len(shape), layout, 0, size, data_bytes)
    whole = shape if shard is None else shard.whole
    shapes = b"".join(_SHAPE.pack(*_padded(each)) for each in (whole, shape))
    axes = _AXES.pack(0 if shard is None else 1, 0)
    if shard is not None:
        dim = shard.dim % len(shape)
        axes += _AXIS.pack(AXIS_TP, 0, shard.rank, shard.size, dim, 0, shape[dim])
    return (start + shapes + axes).ljust(size, b"\0")


def _padded(shape: Sequence[int]) -> list[int]:
    return [*shape, *[MISSING] * (MAX_DIMENSIONS - len(shape))]


def read_header(header: Any, size: int) -> TensorHeader | None:
    """Return what the header says of a tensor that lies in `size` bytes; None if it is none.

    `header` has the first bytes of these, as many as the longest header has if there are so many.
    """
    held = memoryview(header)
    if min(held.nbytes, size) >= HEADER_BYTES:
        found = _current(held, size)
        if found is not None:
            return found
    if min(held.nbytes, size) >= _BEFORE_BYTES:
        found = _before(held, size)
        if found is not None:
            return found
    return _bare(held, size) if min(held.nbytes, size) >= SHORTEST_BYTES else None


def _current(header: Any, size: int) -> TensorHeader | None:
    start = _START.unpack_from(header)
    magic, version, header_bytes, dtype, dimensions, layout, _, offset, data_bytes = start
    if (magic, version, header_bytes) != (MAGIC, VERSION, HEADER_BYTES):
        return None
    axes = _AXES.unpack_from(header, _AXIS_COUNT)[0]
    if layout not in (LAYOUT_FULL, LAYOUT_SHARD) or axes > MAX_AXES or offset < HEADER_BYTES:
        return None
    dims = _SHAPE.unpack_from(header, _LOCAL_SHAPE)
    return _checked(dtype, dimensions, dims, (offset, data_bytes), size)


def _before(header: Any, size: int) -> TensorHeader | None:
    fields = _BEFORE.unpack_from(header)
    magic, version, _, dtype, dimensions, layout = fields[:6]
    if (magic, version, layout) != (MAGIC, VERSION, LAYOUT_FULL):
        return None
    return _checked(dtype, dimensions, fields[6:-2], fields[-2:], size)


def _bare(header: Any, size: int) -> TensorHeader | None:
    dtype, dimensions, *dims = _BARE.unpack_from(header)
    if not 0 <= dimensions <= len(dims) or set(dims[dimensions:]) - {MISSING}:
        return None
    # Nothing else tells it from other bytes, so that it must fill them all.
    return _checked(dtype, dimensions, dims, (_BARE.size, size - _BARE.size), size)


def _checked(
    dtype: int, dimensions: int, dims: Sequence[int], data: Sequence[int], size: int
) -> TensorHeader | None:
    if not (0 <= dtype < len(DTYPES) and 0 <= dimensions <= len(dims)):
        return None
    shape, (offset, data_bytes) = tuple(dims[:dimensions]), data
    if min(shape, default=0) < 0 or math.prod(shape) * ITEM_BYTES[dtype] != data_bytes:
        return None
    if offset + data_bytes > size:
        return None
    return TensorHeader(DTYPES[dtype], shape, offset, data_bytes)
