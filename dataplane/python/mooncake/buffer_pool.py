"""Reusable, registered host buffers: acquire one, let the store read or write it, give it back.

A pool belongs to one store. Every refusal is a `RuntimeError` that says why, as with Mooncake.

Invariant: memory that a view still shows is never handed out again. `release` refuses as long as
there is one; a lease that is dropped with views gives its memory up, which goes with the last view.
Memory is unregistered before it goes, in whichever thread that happens.
"""

from __future__ import annotations

import collections
import threading
import time
import weakref
from typing import Any

from ._buffer_lease import BufferLease, BufferLeaseView, Region
from ._wrapped import client_of

__all__ = [
    "BufferLease",
    "BufferLeaseView",
    "BufferPool",
    "RegisteredBufferLease",
    "RegisteredBufferLeaseView",
    "RegisteredBufferPool",
]

DEFAULT_MIN_CLASS_BYTES = 64 * 1024
DEFAULT_ALIGNMENT_BYTES = 8 * 1024 * 1024
MAX_CLASS_BYTES = 1 << 40
MAX_WAIT_S = 3600.0
LOOK_S = 0.05


class BufferPool:
    """A pool of registered buffers for one store.

    `max_bytes` bounds the memory (0: no bound), `max_regions` the number of buffers. Sizes are
    rounded up to powers of two from `min_size_class` to `max_size_class` bytes; a larger buffer is
    made for its lease alone. When a bound is reached, `acquire` waits up to `timeout` seconds if
    `block`, else raises `RuntimeError`.
    """

    def __init__(
        self,
        store: Any,
        max_bytes: int = 0,
        min_size_class: int = DEFAULT_MIN_CLASS_BYTES,
        max_size_class: int | None = None,
        alignment: int = DEFAULT_ALIGNMENT_BYTES,
        block_on_exhaustion: bool = True,
        default_timeout: float | None = None,
        max_regions: int | None = None,
        prewarm_size: int | None = None,
        prewarm_count: int = 0,
    ) -> None:
        store = client_of(store, "A pool")
        if max_bytes < 0 or min_size_class <= 0 or prewarm_count < 0:
            raise RuntimeError(
                "max_bytes and prewarm_count must be 0 or more, min_size_class above 0"
            )
        if alignment <= 0 or alignment & (alignment - 1):
            raise RuntimeError(f"alignment must be a power of two, got {alignment}")
        self._store = store
        self._max_bytes = max_bytes
        self._min_class = 1 << (min_size_class - 1).bit_length()
        self._max_class = MAX_CLASS_BYTES if max_size_class is None else max_size_class
        self._alignment = alignment
        self._block = block_on_exhaustion
        self._timeout = default_timeout
        self._max_regions = max_regions
        self._free: dict[int, list[Region]] = {}
        self._held_bytes = 0
        self._region_count = 0
        self._leased = 0
        self._closed = False
        self._changed = threading.Condition()
        # What leases that were dropped held. A finalizer runs anywhere, so it takes no lock.
        self.dropped: collections.deque[tuple[Region, weakref.WeakSet]] = collections.deque()
        if prewarm_size is not None and prewarm_count:
            self.prewarm(prewarm_size, prewarm_count)

    def acquire(
        self, size: int, block: bool | None = None, timeout: float | None = None
    ) -> BufferLease:
        """Return a lease of at least `size` bytes.

        Raises RuntimeError for an impossible size, when the pool is exhausted and `block` is false,
        and when waiting took longer than `timeout` seconds.
        """
        class_bytes, kept = self._class_of(size)
        block = self._block if block is None else block
        timeout = self._timeout if timeout is None else timeout
        deadline = time.monotonic() + min(MAX_WAIT_S if timeout is None else timeout, MAX_WAIT_S)
        with self._changed:
            while True:
                self._collect()
                region = self._take(class_bytes, kept)
                if region is not None:
                    self._leased += 1
                    return BufferLease(self, region, size)
                if not block:
                    raise RuntimeError(f"The pool is exhausted: no buffer of {size} bytes is free")
                remaining = deadline - time.monotonic()
                if remaining <= 0:
                    raise RuntimeError(f"Timed out: no buffer of {size} bytes became free")
                # A dropped lease wakes no waiter.
                self._changed.wait(min(remaining, LOOK_S))

    def buffer(
        self, size: int, block: bool | None = None, timeout: float | None = None
    ) -> BufferLease:
        """As `acquire`, for use in a `with` statement."""
        return self.acquire(size, block, timeout)

    def prewarm(self, size: int, count: int) -> None:
        """Allocate and register `count` buffers of `size` bytes ahead of their use."""
        leases = []
        try:
            for _ in range(count):
                leases.append(self.acquire(size, block=False))
        finally:
            for lease in leases:
                lease.release()

    def close(self) -> None:
        """Unregister all buffers. Raises RuntimeError while leases are active."""
        with self._changed:
            self._collect()
            if self._leased and not self._closed:
                raise RuntimeError(f"The pool has {self._leased} active leases; release them first")
        self._shut()

    def _shut(self) -> None:
        """Close; buffers on lease are unregistered when they are released."""
        with self._changed:
            self._closed = True
            self._collect()
            for regions in self._free.values():
                for region in regions:
                    self._retire(region)
            self._free.clear()
            self._changed.notify_all()

    def _class_of(self, size: int) -> tuple[int, bool]:
        """Return the bytes to allocate, and whether such a buffer is kept for others."""
        if size < 0:
            raise RuntimeError(f"size must be 0 or more, got {size}")
        capacity = self._max_bytes or MAX_CLASS_BYTES
        if size > capacity:
            raise RuntimeError(f"size {size} exceeds the capacity of the pool, {capacity}")
        if size > self._max_class:
            return size, False
        class_bytes = max(self._min_class, 1 << max(size - 1, 0).bit_length())
        # Bounds that are no powers of two make the last class smaller, never too small.
        return max(min(class_bytes, self._max_class, capacity), 1), True

    def _take(self, class_bytes: int, kept: bool) -> Region | None:
        """Return a free or a new region; None when the pool is used up. The lock is held."""
        if self._closed:
            raise RuntimeError("The pool is closed")
        regions = self._free.get(class_bytes) if kept else None
        if regions:
            return regions.pop()
        if not self._make_room(class_bytes):
            return None
        region = Region(self._store, class_bytes, self._alignment, kept)
        self._held_bytes += class_bytes
        self._region_count += 1
        return region

    def _make_room(self, class_bytes: int) -> bool:
        """Retire free regions of other classes until a new one fits; say whether it does."""
        while self._is_full(class_bytes):
            victims = next((regions for regions in self._free.values() if regions), None)
            if victims is None:
                return False
            self._retire(victims.pop())
        return True

    def _is_full(self, class_bytes: int) -> bool:
        over_bytes = self._max_bytes and self._held_bytes + class_bytes > self._max_bytes
        over_count = self._max_regions is not None and self._region_count >= self._max_regions
        return bool(over_bytes or over_count)

    def _retire(self, region: Region) -> None:
        self._held_bytes -= region.size
        self._region_count -= 1
        region.unregister()

    def give_back(self, region: Region) -> None:
        """Take the memory of a released lease back."""
        with self._changed:
            self._collect()
            self._put_back(region, reusable=True)
            self._changed.notify_all()

    def _put_back(self, region: Region, reusable: bool) -> None:
        """Keep a region for the next lease, or retire it. The lock is held."""
        self._leased -= 1
        if reusable and region.kept and not self._closed:
            self._free.setdefault(region.size, []).append(region)
        else:
            self._retire(region)

    def _collect(self) -> None:
        """Take back what dropped leases held. The lock is held."""
        while self.dropped:
            region, windows = self.dropped.popleft()
            self._put_back(region, reusable=not windows)

    def __enter__(self) -> "BufferPool":
        return self

    def __exit__(self, *_error: object) -> None:
        self._shut()


RegisteredBufferLease = BufferLease
RegisteredBufferLeaseView = BufferLeaseView
RegisteredBufferPool = BufferPool
