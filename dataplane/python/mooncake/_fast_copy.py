"""Arrays one after the other into memory, in one call."""

from __future__ import annotations

import ctypes
import itertools
from typing import Any

__all__ = ["concat_arrays_into"]


def concat_arrays_into(
    arrays: list[Any],
    destination: int,
    destination_bytes: int,
    start: int = 0,
    count: int = -1,
    threads: int = 1,
) -> int:
    """Copy `arrays[start:start + count]` to the address `destination`; return the bytes copied.

    The arrays have a buffer (numpy's have). A negative `count` means all from `start` on. Copying is
    bound by memory, so one thread does it whatever `threads` says. Raises ValueError if an array is
    not C-contiguous or if `destination_bytes` are too few; then nothing is copied.
    """
    start = max(start, 0)
    chosen = arrays[start:] if count < 0 else arrays[start : start + count]
    views = [_flat(array, start + at) for at, array in enumerate(chosen)]
    ends = list(itertools.accumulate(view.nbytes for view in views))
    total = ends[-1] if ends else 0
    if total > destination_bytes:
        raise ValueError(
            f"destination buffer too small: need {total} bytes, got {destination_bytes}"
        )
    if total:
        target = memoryview((ctypes.c_ubyte * total).from_address(destination)).cast("B")
        for view, end in zip(views, ends):
            target[end - view.nbytes : end] = view
    return total


def _flat(array: Any, index: int) -> memoryview:
    view = memoryview(array)
    if not view.c_contiguous:
        raise ValueError(f"arrays[{index}] is not C-contiguous")
    return view.cast("B") if view.nbytes else memoryview(b"")
