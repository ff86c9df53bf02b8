"""Arrays over addresses. The caller answers for the address and keeps its memory alive."""

from __future__ import annotations

import ctypes
import math

import numpy as np


def array_at(address: int, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
    """Return an array over the memory at an address."""
    count = math.prod(shape)
    if not count:
        return np.empty(shape, dtype=dtype)
    memory = (ctypes.c_ubyte * (count * dtype.itemsize)).from_address(address)
    return np.frombuffer(memoryview(memory), dtype=dtype, count=count).reshape(shape)
