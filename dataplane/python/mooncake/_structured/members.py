"""Reading members back: whole or some of their rows, into new memory or the caller's."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from .. import _tensor
from . import tensors
from .raw_memory import array_at
from .reader import PayloadReader, Range
from .rows import row_ranges
from .sources import RawDestination, TensorObjectBuffer


class MemberReader:
    """Reads members of structured objects. `rows` are row numbers, None for all."""

    def __init__(self, reader: PayloadReader, store: Any) -> None:
        self._reader, self._store = reader, store

    def read(
        self,
        name: str,
        payload: Mapping[str, Any],
        spec: Mapping[str, Any],
        rows: list[int] | None = None,
        destination: Any = None,
    ) -> Any:
        """Return a member as its specification says; ValueError if that cannot be done."""
        encoding = spec.get("encoding")
        if encoding == "ndarray":
            return self._array(name, payload, spec, rows, destination)
        if encoding == "torch_tensor":
            return self._tensor(name, payload, spec, rows, destination)
        if encoding != "bytes":
            raise ValueError(f"member {name!r}: unsupported structured field encoding {encoding!r}")
        if rows is not None:
            raise ValueError(f"member {name!r} is bytes and does not support slicing")
        if destination is not None:
            raise ValueError(f"member {name!r} is bytes and does not support destinations")
        return self._reader.read(payload)

    def _array(
        self,
        name: str,
        payload: Mapping[str, Any],
        spec: Mapping[str, Any],
        rows: list[int] | None,
        destination: Any,
    ) -> np.ndarray:
        dtype, full = array_type(name, spec)
        shape, ranges = _selected(full, dtype.itemsize, rows, name)
        if destination is None:
            return self._reader.read_array(payload, dtype, shape, ranges)
        if isinstance(destination, RawDestination):
            size = _fits(name, destination.size, dtype.itemsize * math.prod(shape))
            self._reader.read_into(
                payload, ranges, destination.ptr, size, destination.pre_registered
            )
            return array_at(destination.ptr, dtype, shape)
        _check_array(name, destination, dtype, shape)
        address = destination.ctypes.data
        self._reader.read_into(payload, ranges, address, destination.nbytes)
        return destination

    def _tensor(
        self,
        name: str,
        payload: Mapping[str, Any],
        spec: Mapping[str, Any],
        rows: list[int] | None,
        destination: Any,
    ) -> Any:
        nested = spec.get("nested")
        if nested or payload.get("format") == tensors.TORCH_SAVE:
            if destination is not None:
                raise ValueError(f"tensor {name!r} in this format does not support destinations")
            blob = self._reader.read(payload)
            if nested:
                value = tensors.from_jagged(blob, spec, name)
                return value if rows is None else tensors.jagged_rows(value, rows)
            value = tensors.loaded(blob)
            return value if rows is None else value[rows]
        if destination is not None:
            return self._tensor_into(name, payload, spec, rows, destination)
        if rows is not None:
            return self._tensor_rows(name, payload, spec, rows)
        if payload.get("kind") != "tensor":
            return tensors.from_header(self._reader.read(payload), name)
        get = getattr(self._store, "get_tensor", None)
        if not callable(get):
            raise RuntimeError(f"the store does not support get_tensor, which {name!r} needs")
        value = get(payload["key"])
        if value is None:
            raise RuntimeError(f"tensor {name!r} is not in the store: {payload['key']!r}")
        return value

    def _tensor_rows(
        self, name: str, payload: Mapping[str, Any], spec: Mapping[str, Any], rows: list[int]
    ) -> Any:
        ranges = _tensor_ranges(name, payload, spec, rows)
        self._reader.check(payload, ranges)
        value = tensors.empty(spec, len(rows))
        size = value.numel() * value.element_size()
        self._reader.read_into(payload, ranges, value.data_ptr(), size)
        return value

    def _tensor_into(
        self,
        name: str,
        payload: Mapping[str, Any],
        spec: Mapping[str, Any],
        rows: list[int] | None,
        destination: Any,
    ) -> Any:
        if not isinstance(destination, (TensorObjectBuffer, RawDestination)):
            raise ValueError(
                f"tensor {name!r} is read into a tensor_object_buffer or a raw_destination only"
            )
        known = isinstance(destination, RawDestination) and destination.pre_registered
        if rows is None:
            size = _fits(name, destination.size, payload["bytes"])
            self._reader.read_into(payload, [(0, size)], destination.ptr, size, known)
            if isinstance(destination, RawDestination):
                return destination
            value = _tensor.unpack(_tensor.memory(destination.ptr, size))
            return destination if value is None else value
        ranges = _tensor_ranges(name, payload, spec, rows)
        shape = (len(rows), *spec["shape"][1:])
        header = _tensor.write_header(spec["dtype"].removeprefix("torch."), shape)
        data = sum(length for _, length in ranges)
        _fits(name, destination.size, len(header) + data)
        ctypes.memmove(destination.ptr, header, len(header))
        self._reader.read_into(payload, ranges, destination.ptr + len(header), data, known)
        return destination


def array_type(name: str, spec: Mapping[str, Any]) -> tuple[np.dtype, tuple[int, ...]]:
    """Return dtype and shape of a stored array; ValueError if they are missing or of objects."""
    shape, dtype = shape_of(spec), spec.get("dtype")
    if not isinstance(dtype, str) or shape is None:
        raise ValueError(f"array {name!r} has no dtype or shape")
    kind = np.dtype(dtype)
    if kind.hasobject:
        raise ValueError(f"array {name!r} cannot be of Python objects")
    return kind, shape


def _selected(
    shape: tuple[int, ...], item: int, rows: list[int] | None, name: str, offset: int = 0
) -> tuple[tuple[int, ...], list[Range]]:
    if rows is None:
        size = item * math.prod(shape)
        return shape, [(offset, size)] if size else []
    if not shape:
        raise ValueError(f"member {name!r} has no dimension to choose rows of")
    ranges = row_ranges(rows, item * math.prod(shape[1:]), offset)
    return (len(rows), *shape[1:]), ranges


def _tensor_ranges(
    name: str, payload: Mapping[str, Any], spec: Mapping[str, Any], rows: list[int]
) -> list[Range]:
    header, item, shape = payload.get("metadata_bytes"), spec.get("element_size"), shape_of(spec)
    if not isinstance(header, int) or not isinstance(item, int) or item < 1 or shape is None:
        raise ValueError(f"tensor {name!r} does not say where its rows are; read it whole")
    return _selected(shape, item, rows, name, header)[1]


def shape_of(spec: Mapping[str, Any]) -> tuple[int, ...] | None:
    """Return the stored shape of a member, None if it has none."""
    shape = spec.get("shape")
    held = isinstance(shape, list) and all(isinstance(it, int) and it >= 0 for it in shape)
    return tuple(shape or ()) if held else None


def _fits(name: str, room: int, wanted: int) -> int:
    if room < wanted:
        raise ValueError(f"the destination of {name!r} has {room} bytes, {wanted} are needed")
    return wanted


def _check_array(name: str, array: Any, dtype: np.dtype, shape: tuple[int, ...]) -> None:
    if not isinstance(array, np.ndarray):
        raise ValueError(f"the destination of {name!r} must be an array or a raw_destination")
    if array.shape != shape:
        raise ValueError(f"destination shape mismatch of {name!r}: {array.shape}, read {shape}")
    if array.dtype != dtype:
        raise ValueError(f"the destination of {name!r} is of {array.dtype}, not of {dtype}")
    if not array.flags.writeable or not array.flags.c_contiguous:
        raise ValueError(f"the destination of {name!r} must be writeable and C-contiguous")
