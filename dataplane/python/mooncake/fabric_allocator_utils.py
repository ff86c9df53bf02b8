"""Looks for the allocator libraries of Mooncake, which this package does not have."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

__all__ = ["get_mooncake_so_path", "probe_allocator_backend"]

_Value = TypeVar("_Value")


def get_mooncake_so_path(so_name: str, import_error_message: str) -> str:
    """Return the path of a library of this package; raise ImportError with the message if none."""
    path = Path(__file__).with_name(so_name)
    if not path.is_file():
        raise ImportError(import_error_message)
    return str(path)


def probe_allocator_backend(
    so_path: str, probe_symbol: str, restype: Any, unsupported_value: _Value
) -> _Value:
    """Return `unsupported_value`: there is no allocator to ask."""
    return unsupported_value
