"""What the callbacks of `CoroRPCInterface` get: a dict with "source", "data" and, for tensors,
"dtype" and "shape", which also answers by the names of Mooncake's classes."""

from __future__ import annotations

from typing import Any

__all__ = ["ReceivedData", "ReceivedTensor"]


class ReceivedData(dict[str, Any]):
    """The bytes of one message."""

    @property
    def source_address(self) -> str:
        """Where it came from; always "", as with Mooncake."""
        return self["source"]

    @property
    def data_size(self) -> int:
        """The number of its bytes."""
        return len(self["data"])

    def get_bytes(self) -> bytes:
        """Return the bytes."""
        return bytes(self["data"])

    def get_memory_view(self) -> memoryview:
        """Return a view of the bytes."""
        return memoryview(self["data"])


class ReceivedTensor(ReceivedData):
    """The bytes of one tensor, row by row."""

    @property
    def shape(self) -> list[int]:
        """The size of each dimension."""
        return self["shape"]

    @property
    def dtype(self) -> str:
        """The type of an item, as torch writes it."""
        return self["dtype"]

    @property
    def total_bytes(self) -> int:
        """The number of its bytes."""
        return self.data_size

    def get_data_size(self) -> int:
        """Return the number of its bytes."""
        return self.data_size

    def get_data_as_bytes(self) -> bytes:
        """Return the bytes."""
        return self.get_bytes()
