"""The lease of a registered buffer, and the memory behind it.

Invariant: memory goes only when neither a lease nor a view shows it, and is unregistered first.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
import weakref
from typing import Any


class BufferLeaseView:
    """The bytes of a lease: what `memoryview.obj` of its buffer is."""

    __hash__ = object.__hash__  # an array of ctypes has none, and a WeakSet needs one

    @property
    def buffer(self) -> memoryview:
        """Writable view of the bytes."""
        shown = memoryview(self)
        return shown.cast("B") if shown.nbytes else shown


@functools.lru_cache(maxsize=64)
def _view_type(size: int) -> type:
    return type("BufferLeaseView", (BufferLeaseView, ctypes.c_ubyte * size), {})


class Region:
    """Anonymous memory registered with the store; kept for its size class, or used once."""

    def __init__(self, store: Any, size: int, alignment: int, kept: bool) -> None:
        # Alignment beyond a page costs at most one alignment unit of address space, not of memory.
        slack = alignment if alignment > mmap.PAGESIZE else 0
        self._memory = mmap.mmap(-1, size + slack)
        probe = ctypes.c_char.from_buffer(self._memory)
        base = ctypes.addressof(probe)
        del probe
        self.offset = -base % alignment
        self.address = base + self.offset
        self.size = size
        self.kept = kept
        code = store.register_buffer(self.address, size)
        if code != 0:
            self._memory.close()
            raise RuntimeError(f"register_buffer of {size} bytes failed with code {code}")
        # Also called when the region goes: the next mapping may be put at the same address.
        self.unregister = weakref.finalize(self, store.unregister_buffer, self.address)

    def window(self, size: int) -> BufferLeaseView:
        """Return the first `size` bytes as an array that keeps the memory alive."""
        return _view_type(size).from_buffer(self._memory, self.offset)


class BufferLease:
    """A buffer of a pool: `ptr`, `size` in bytes, `buffer` (a memoryview); a context manager."""

    def __init__(self, pool: Any, region: Region, size: int) -> None:
        self._pool = pool
        self._region: Region | None = region
        self._windows: weakref.WeakSet[BufferLeaseView] = weakref.WeakSet()
        self.size = size
        self._dropped = weakref.finalize(self, pool.dropped.append, (region, self._windows))
        self._dropped.atexit = False

    def _live(self) -> Region:
        if self._region is None:
            raise RuntimeError("The lease was released")
        return self._region

    @property
    def ptr(self) -> int:
        """Address of the first byte; raises RuntimeError after `release`."""
        return self._live().address

    @property
    def buffer(self) -> memoryview:
        """A new writable view of the bytes; raises RuntimeError after `release`."""
        window = self._live().window(self.size)
        self._windows.add(window)
        return window.buffer

    def release(self) -> None:
        """Give the buffer back; a second call does nothing.

        Raises RuntimeError while a view, array or tensor made of `buffer` lives; the lease stays.
        """
        if self._region is None:
            return
        if self._windows:
            raise RuntimeError("The lease has exported views; delete them before release")
        region, self._region = self._region, None
        self._dropped.detach()
        self._pool.give_back(region)

    def __enter__(self) -> BufferLease:
        return self

    def __exit__(self, *_error: object) -> None:
        self.release()
