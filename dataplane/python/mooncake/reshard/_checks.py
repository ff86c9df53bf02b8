"""Checks of single values: each returns the value in its final form or raises `ValueError`.

Types are exact. A boolean is no integer and a string is no sequence, so that a value means the same
here and in the JSON that others read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

U64_MAX = (1 << 64) - 1
SHA256_DIGITS = 64

_Item = TypeVar("_Item")


def text(value: object, name: str) -> str:
    """Return a string that is not empty."""
    if type(value) is not str or not value:
        raise ValueError(f"{name} must be a non-empty string")
    return value


def texts(owner: object, names: Iterable[str]) -> None:
    """Check that attributes of `owner` are strings that are not empty."""
    for name in names:
        text(getattr(owner, name), name)


def whole(value: object, name: str, minimum: int = 0) -> int:
    """Return an integer that is `minimum` or more."""
    if type(value) is not int:
        raise ValueError(f"{name} must be an integer")
    if value < minimum:
        raise ValueError(f"{name} must be an integer, at least {minimum}")
    return value


def optional_whole(value: object, name: str, minimum: int = 0) -> int | None:
    """Return an integer that is `minimum` or more, or None."""
    return None if value is None else whole(value, name, minimum)


def u64(value: object, name: str, minimum: int = 0) -> int:
    """Return an integer that fits in 64 bits without a sign."""
    if whole(value, name, minimum) > U64_MAX:
        raise ValueError(f"{name} must fit in an unsigned 64-bit integer")
    return value  # type: ignore[return-value]


def sequence(value: object, name: str) -> Sequence[Any]:
    """Return a list, tuple or other sequence; strings and bytes are none."""
    if isinstance(value, (str, bytes, bytearray)) or not isinstance(value, Sequence):
        raise ValueError(f"{name} must be a sequence")
    return value


def wholes(value: object, name: str, minimum: int = 0) -> tuple[int, ...]:
    """Return integers that are `minimum` or more, as a tuple."""
    if isinstance(value, (str, bytes, bytearray)) or not isinstance(value, Sequence):
        raise ValueError(f"{name} must contain integers")
    return tuple(whole(item, f"{name}[{at}]", minimum) for at, item in enumerate(value))


def items(value: object, name: str, kind: type[_Item]) -> tuple[_Item, ...]:
    """Return the members of a sequence that holds nothing but `kind`."""
    members = tuple(sequence(value, name))
    if not all(isinstance(member, kind) for member in members):
        raise ValueError(f"{name} must contain {kind.__name__}")
    return members


def unique(values: Iterable[object], message: str) -> None:
    """Raise `ValueError` if a value comes twice."""
    members = list(values)
    if len(members) != len(set(members)):
        raise ValueError(message)


def sha256(value: object, name: str) -> str:
    """Return a lower-case SHA-256 digest in hexadecimal."""
    digest = text(value, name)
    if len(digest) != SHA256_DIGITS or set(digest) - set("0123456789abcdef"):
        raise ValueError(f"{name} must be a lowercase SHA-256 digest")
    return digest
