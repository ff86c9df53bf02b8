"""Reading payloads: whole or in ranges, into memory by the store's fast calls, or by plain gets.

Invariant: a read returns only if every byte that was asked for has arrived.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np

from .pool_array import pool_array
from .raw_memory import array_at
from .writer import Registration, has_calls

# Source offset and bytes of a payload.
Range = tuple[int, int]
BYTES = np.dtype(np.uint8)
# More memory than this is not taken on the word of a manifest alone.
TRUSTED_BYTES = 64 << 20


@dataclass(frozen=True)
class Fragment:
    """A range of one chunk and where it goes."""

    key: str
    source: int
    size: int
    target: int
    whole: bool


def merged(ranges: Iterable[Range]) -> list[Range]:
    """Join ranges that follow each other."""
    joined: list[Range] = []
    for start, size in ranges:
        if joined and joined[-1][0] + joined[-1][1] == start:
            joined[-1] = (joined[-1][0], joined[-1][1] + size)
        elif size:
            joined.append((start, size))
    return joined


def fragments_of(payload: Mapping[str, Any], ranges: Iterable[Range]) -> list[Fragment]:
    """Return the parts of chunks that the ranges cover, packed one after the other."""
    chunks = payload["chunks"]
    ends = np.cumsum([chunk["bytes"] for chunk in chunks], dtype=np.int64)
    found, target = [], 0
    for start, size in ranges:
        if start < 0 or size < 0 or start + size > payload["bytes"]:
            raise ValueError(f"bytes {start} to {start + size} lie outside {payload['key']!r}")
        at = int(np.searchsorted(ends, start, side="right"))
        while size:
            length = chunks[at]["bytes"]
            source = start - (int(ends[at]) - length)
            part = min(size, length - source)
            found.append(Fragment(chunks[at]["key"], source, part, target, part == length))
            start, size, target, at = start + part, size - part, target + part, at + 1
    return found


class PayloadReader:
    """Reads payloads from a store."""

    def __init__(self, store: Any, buffer_pool: Any = None) -> None:
        self._store = store
        self._pool = buffer_pool

    def read(self, payload: Mapping[str, Any]) -> bytes:
        """Return a whole payload."""
        size = payload["bytes"]
        fragments = fragments_of(payload, [(0, size)])
        if not self._registers() or not has_calls(self._store, ["batch_get_into"]):
            return b"".join(self._get(fragment.key, fragment.size) for fragment in fragments)
        self.check(payload, [(0, size)])
        memory = np.empty(size, dtype=BYTES)
        if size:
            with Registration(self._store, memory.ctypes.data, size):
                self._batch_get(fragments, memory.ctypes.data)
        return memory.tobytes()

    def read_array(
        self,
        payload: Mapping[str, Any],
        dtype: np.dtype,
        shape: tuple[int, ...],
        ranges: Sequence[Range],
    ) -> np.ndarray:
        """Return ranges of a payload as an array, in memory of the pool if there is one."""
        if dtype.hasobject:
            raise ValueError(f"{payload['key']!r} cannot be read as Python objects: {dtype}")
        size = sum(length for _, length in ranges)
        if size != dtype.itemsize * int(np.prod(shape, dtype=np.int64)):
            raise ValueError(f"{size} bytes of {payload['key']!r} are no {dtype} of {shape}")
        self.check(payload, ranges)
        if self._pool is None or not size or not has_calls(self._store, ["get_into_ranges"]):
            array = np.empty(shape, dtype=dtype)
            self.read_into(payload, ranges, array.ctypes.data, size)
            return array
        lease = self._pool.acquire(size)
        try:
            self.read_into(payload, ranges, lease.ptr, size, registered=True)
        except BaseException:
            lease.release()
            raise
        return pool_array(lease, dtype, shape)

    def read_into(
        self,
        payload: Mapping[str, Any],
        ranges: Sequence[Range],
        address: int,
        size: int,
        registered: bool = False,
    ) -> None:
        """Read ranges, packed, to an address; `registered` if the store knows that memory.

        ValueError if they do not have `size` bytes together.
        """
        wanted = sum(length for _, length in ranges)
        if wanted != size:
            raise ValueError(f"{wanted} bytes of {payload['key']!r} do not fit memory of {size}")
        fragments = fragments_of(payload, ranges)
        if not fragments:
            return
        if not registered and not self._registers():
            return self._copy(fragments, address)
        with nullcontext() if registered else Registration(self._store, address, size):
            single = len(fragments) == 1 and fragments[0].whole and not registered
            if single and has_calls(self._store, ["get_into"]):
                key, length = fragments[0].key, fragments[0].size
                self._check(key, self._store.get_into(key, address, size), length)
            elif has_calls(self._store, ["get_into_ranges"]):
                self._get_ranges(fragments, address)
            else:
                self._copy(fragments, address)

    def check(self, payload: Mapping[str, Any], ranges: Sequence[Range]) -> None:
        """Call it before memory is taken for ranges: they must lie in the payload, else ValueError.

        RuntimeError if they are large and the store has other sizes than the payload says.
        """
        wanted = {fragment.key for fragment in fragments_of(payload, ranges)}
        size = sum(length for _, length in ranges)
        if size <= TRUSTED_BYTES or not has_calls(self._store, ["get_size"]):
            return
        for chunk in payload["chunks"]:
            if chunk["key"] in wanted:
                self._check(chunk["key"], self._store.get_size(chunk["key"]), chunk["bytes"])

    def _registers(self) -> bool:
        return has_calls(self._store, ["register_buffer", "unregister_buffer"])

    def _batch_get(self, fragments: Sequence[Fragment], address: int) -> None:
        keys = [fragment.key for fragment in fragments]
        addresses = [address + fragment.target for fragment in fragments]
        sizes = [fragment.size for fragment in fragments]
        for key, size, got in zip(keys, sizes, self._store.batch_get_into(keys, addresses, sizes)):
            self._check(key, got, size)

    def _get_ranges(self, fragments: Sequence[Fragment], address: int) -> None:
        of_key: dict[str, list[Fragment]] = {}
        for fragment in fragments:
            of_key.setdefault(fragment.key, []).append(fragment)
        groups = list(of_key.values())
        (answer,) = self._store.get_into_ranges(
            [address],
            [list(of_key)],
            [[[fragment.target for fragment in group] for group in groups]],
            [[[fragment.source for fragment in group] for group in groups]],
            [[[fragment.size for fragment in group] for group in groups]],
        )
        for group, sizes in zip(groups, answer, strict=True):
            for fragment, got in zip(group, sizes, strict=True):
                self._check(fragment.key, got, fragment.size)

    def _copy(self, fragments: Sequence[Fragment], address: int) -> None:
        values: dict[str, bytes] = {}
        for fragment in fragments:
            value = values.get(fragment.key)
            if value is None:
                value = values[fragment.key] = self._get(fragment.key, None)
            part = memoryview(value)[fragment.source : fragment.source + fragment.size]
            self._check(fragment.key, len(part), fragment.size)
            array_at(address + fragment.target, BYTES, (fragment.size,))[:] = part

    def _get(self, key: str, size: int | None) -> bytes:
        value = self._store.get(key)
        if size is not None:
            self._check(key, len(value), size)
        return value

    def _check(self, key: str, got: int, wanted: int) -> None:
        if got != wanted:
            problem = f"answered {got}" if got < 0 else f"has {got} bytes"
            raise RuntimeError(f"the read of {key!r} {problem}; {wanted} bytes are expected")
