"""Reusable, registered host buffers: acquire one, let the store read or write it, give it back.

A pool belongs to one store. Memory that a view of a released lease still shows is never handed to
anybody else: such a region is dropped from the pool and freed with its last view. A lease that is
dropped without `release` gives its buffer back all the same, and memory is unregistered before it
goes, in whichever thread it is released.
"""

from __future__ import annotations

import collections
import ctypes
import mmap
import threading
import time
import weakref
from typing import Any

__all__ = ["BufferLease", "BufferPool", "RegisteredBufferLease", "RegisteredBufferPool"]

DEFAULT_MIN_CLASS_BYTES = 64 * 1024
DEFAULT_ALIGNMENT_BYTES = 8 * 1024 * 1024
MAX_CLASS_BYTES = 1 << 40
MAX_WAIT_S = 3600.0
LOOK_S = 0.05


class _Region:
    """Anonymous memory of one size class, registered with the store."""

    def __init__(self, store: Any, class_bytes: int, alignment: int) -> None:
        # Alignment beyond a page costs at most one alignment unit of address space, not of memory.
        slack = alignment if alignment > mmap.PAGESIZE else 0
        self._memory = mmap.mmap(-1, class_bytes + slack)
        probe = ctypes.c_char.from_buffer(self._memory)
        base = ctypes.addressof(probe)
        del probe
        self.offset = -base % alignment
        self.address = base + self.offset
        self.class_bytes = class_bytes
        code = store.register_buffer(self.address, class_bytes)
        if code != 0:
            self._memory.close()
            raise RuntimeError(f"register_buffer of {class_bytes} bytes failed with code {code}")
        # Also called when the region goes: the next mapping may be put at the same address.
        self.unregister = weakref.finalize(self, store.unregister_buffer, self.address)

    def window(self, size: int) -> ctypes.Array:
        """Return the first `size` bytes as an array that keeps the memory alive."""
        return (ctypes.c_ubyte * size).from_buffer(self._memory, self.offset)


class BufferLease:
    """A buffer of a pool: `ptr`, `size` in bytes, `buffer` (a memoryview); a context manager."""

    def __init__(self, pool: "BufferPool", region: _Region, size: int) -> None:
        self._pool = pool
        self._region: _Region | None = region
        window = region.window(size)
        self._window = weakref.ref(window)
        self._view = memoryview(window).cast("B") if size else memoryview(bytearray())
        self.size = size
        self._dropped = weakref.finalize(self, pool._dropped.append, (region, self._window))
        self._dropped.atexit = False

    def _live(self) -> _Region:
        if self._region is None:
            raise RuntimeError("The lease was released")
        return self._region

    @property
    def ptr(self) -> int:
        """Address of the first byte; raises RuntimeError after `release`."""
        return self._live().address

    @property
    def buffer(self) -> memoryview:
        """Writable view of the bytes; raises RuntimeError after `release`."""
        self._live()
        return self._view

    def release(self) -> None:
        """Give the buffer back; a second call does nothing."""
        region, self._region = self._region, None
        if region is None:
            return
        self._dropped.detach()
        try:
            self._view.release()
        except BufferError:  # an array or tensor was made of the view and lives on
            pass
        # Slices, arrays and tensors of the view keep the window alive: then it must not be reused.
        self._pool._give_back(region, reusable=self._window() is None)

    def __enter__(self) -> "BufferLease":
        return self

    def __exit__(self, *_error: object) -> None:
        self.release()


class BufferPool:
    """A pool of registered buffers for one store.

    `max_bytes` bounds the memory (0: no bound), `max_regions` the number of buffers. Sizes are
    rounded up to powers of two from `min_size_class` to `max_size_class` bytes. When the bound is
    reached, `acquire` waits up to `timeout` seconds if `block`, else raises `MemoryError`.
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
        if store is None:
            raise RuntimeError("A pool needs a store")
        if max_bytes < 0 or min_size_class <= 0 or prewarm_count < 0:
            raise ValueError("max_bytes, min_size_class and prewarm_count must not be negative")
        if alignment <= 0 or alignment & (alignment - 1):
            raise ValueError(f"alignment must be a power of two, got {alignment}")
        self._store = store
        self._max_bytes = max_bytes
        self._min_class = 1 << (min_size_class - 1).bit_length()
        self._max_class = MAX_CLASS_BYTES if max_size_class is None else max_size_class
        self._alignment = alignment
        self._block = block_on_exhaustion
        self._timeout = default_timeout
        self._max_regions = max_regions
        self._free: dict[int, list[_Region]] = {}
        self._held_bytes = 0
        self._region_count = 0
        self._closed = False
        self._changed = threading.Condition()
        # What leases that were dropped held. A finalizer runs anywhere, so it takes no lock.
        self._dropped: collections.deque[tuple[_Region, weakref.ref]] = collections.deque()
        if prewarm_size is not None and prewarm_count:
            self.prewarm(prewarm_size, prewarm_count)

    def acquire(
        self, size: int, block: bool | None = None, timeout: float | None = None
    ) -> BufferLease:
        """Return a lease of at least `size` bytes.

        Raises ValueError for an impossible size, MemoryError when the pool is used up and `block`
        is false, TimeoutError when waiting took longer than `timeout` seconds.
        """
        class_bytes = self._class_of(size)
        block = self._block if block is None else block
        timeout = self._timeout if timeout is None else timeout
        deadline = time.monotonic() + min(MAX_WAIT_S if timeout is None else timeout, MAX_WAIT_S)
        with self._changed:
            while True:
                self._collect()
                region = self._take(class_bytes)
                if region is not None:
                    return BufferLease(self, region, size)
                if not block:
                    raise MemoryError(f"No buffer of {size} bytes is free; the pool is used up")
                remaining = deadline - time.monotonic()
                if remaining <= 0:
                    raise TimeoutError(f"No buffer of {size} bytes became free in time")
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
        """Unregister all free buffers; those on lease follow when they or the pool are released."""
        with self._changed:
            self._closed = True
            self._collect()
            for regions in self._free.values():
                for region in regions:
                    self._retire(region)
            self._free.clear()
            self._changed.notify_all()

    def _class_of(self, size: int) -> int:
        if size < 0:
            raise ValueError(f"size must not be negative, got {size}")
        class_bytes = max(self._min_class, 1 << max(size - 1, 0).bit_length())
        largest = min(self._max_class, self._max_bytes or self._max_class)
        if size > largest:
            raise ValueError(f"size {size} is above the largest buffer of the pool, {largest}")
        return min(class_bytes, largest)

    def _take(self, class_bytes: int) -> _Region | None:
        """Return a free or a new region; None when the pool is used up. The lock is held."""
        if self._closed:
            raise RuntimeError("The pool is closed")
        regions = self._free.get(class_bytes)
        if regions:
            return regions.pop()
        if not self._make_room(class_bytes):
            return None
        region = _Region(self._store, class_bytes, self._alignment)
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

    def _retire(self, region: _Region) -> None:
        self._held_bytes -= region.class_bytes
        self._region_count -= 1
        region.unregister()

    def _give_back(self, region: _Region, reusable: bool) -> None:
        with self._changed:
            self._collect()
            self._put_back(region, reusable)
            self._changed.notify_all()

    def _put_back(self, region: _Region, reusable: bool) -> None:
        """Keep a region for the next lease, or retire it. The lock is held."""
        if reusable and not self._closed:
            self._free.setdefault(region.class_bytes, []).append(region)
        else:
            self._retire(region)

    def _collect(self) -> None:
        """Take back what dropped leases held. The lock is held."""
        while self._dropped:
            region, window = self._dropped.popleft()
            self._put_back(region, reusable=window() is None)

    def __enter__(self) -> "BufferPool":
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


RegisteredBufferLease = BufferLease
RegisteredBufferPool = BufferPool
