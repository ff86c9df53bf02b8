"""Memory and batches that a `with` block gives back."""

from __future__ import annotations

from typing import Any


class MemoryGuard:
    """Memory of an engine; entering returns its address."""

    def __init__(self, engine: Any, address: int, size: int) -> None:
        self._engine, self._address, self._size = engine, address, size

    def address(self) -> int:
        """Return the address, 0 after it was given back."""
        return self._address

    def size(self) -> int:
        """Return the bytes."""
        return self._size

    def __enter__(self) -> int:
        return self._address

    def __exit__(self, *_: object) -> None:
        address, self._address = self._address, 0
        if address:
            self._engine.free_local_memory(address)


class BatchGuard:
    """A batch; entering returns its number."""

    def __init__(self, engine: Any, number: int) -> None:
        self._engine, self._number = engine, number

    def id(self) -> int:
        """Return the number, 0 after it was freed."""
        return self._number

    def release(self) -> None:
        """Free the batch."""
        number, self._number = self._number, 0
        if number:
            self._engine.free_transfer_batch(number)

    def __enter__(self) -> int:
        return self._number

    def __exit__(self, *_: object) -> None:
        self.release()
