"""Allocators of accelerator memory that Mooncake builds for NVLink and Barex. None is built here.

The classes can be imported, so that a framework can ask; `get_allocator` raises NotImplementedError.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, NoReturn

__all__ = ["BarexAllocator", "MemoryBackend", "NVLinkAllocator"]


class MemoryBackend(IntEnum):
    """How the memory of an allocator can be shared between machines."""

    USE_CUDAMALLOC = 0
    USE_CUMEMCREATE = 1
    UNKNOWN = -1
    UNSUPPORTED = -2


class NVLinkAllocator:
    """Memory that other machines reach over NVLink. Not built."""

    @classmethod
    def detect_mem_backend(cls) -> MemoryBackend:
        """Return that there is none."""
        return MemoryBackend.UNSUPPORTED

    @classmethod
    def get_allocator(cls, device: Any) -> NoReturn:
        """Raise NotImplementedError."""
        raise NotImplementedError(_refusal("NVLink"))


class BarexAllocator:
    """Memory that Barex devices reach. Not built."""

    @classmethod
    def get_allocator(cls, device: Any) -> NoReturn:
        """Raise NotImplementedError."""
        raise NotImplementedError(_refusal("Barex"))


def _refusal(fabric: str) -> str:
    return (
        f"No allocator for {fabric} memory is built; leave the custom memory pool of the framework "
        "off, then its device memory is registered as it is"
    )
