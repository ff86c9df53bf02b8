"""Arrays over addresses. The caller answers for the address.

Invariant: every array and view over the memory keeps the `owner` alive.
"""

from __future__ import annotations

import ctypes
import math
from typing import Any

import numpy as np


def array_at(
    address: int, dtype: np.dtype, shape: tuple[int, ...], owner: Any = None
) -> np.ndarray:
    """Return an array over the memory at an address, which `owner` keeps alive."""
    count = math.prod(shape)
    if not count:
        return np.empty(shape, dtype=dtype)
    memory = (ctypes.c_ubyte * (count * dtype.itemsize)).from_address(address)
    # numpy shortens chains of views, but all of them end here.
    memory.owner = owner
    return np.frombuffer(memoryview(memory), dtype=dtype, count=count).reshape(shape)
