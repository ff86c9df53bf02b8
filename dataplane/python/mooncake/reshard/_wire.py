"""Strict JSON: an object has exactly the fields of its form, each once, and only finite numbers."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any


def load(source: str | bytes | bytearray, label: str) -> Mapping[str, Any]:
    """Return the one JSON object of a text."""
    try:
        value = json.loads(source, parse_constant=_no_constant, object_pairs_hook=_once)
    except (TypeError, json.JSONDecodeError) as error:
        raise ValueError(f"{label} is not valid JSON") from error
    return mapping(value, label)


def _no_constant(constant: str) -> None:
    raise ValueError(f"{constant} is a non-finite JSON number")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for name, value in pairs:
        if name in result:
            raise ValueError(f"duplicate JSON field: {name}")
        result[name] = value
    return result


def mapping(value: object, label: str) -> Mapping[str, Any]:
    """Return a JSON object, any other value is refused."""
    if not isinstance(value, Mapping) or any(type(name) is not str for name in value):
        raise ValueError(f"{label} must be a JSON object")
    return value


def exact(value: object, names: Iterable[str], label: str) -> Mapping[str, Any]:
    """Return a JSON object that has the fields `names` and no others."""
    fields = mapping(value, label)
    if set(fields) != set(names):
        raise ValueError(f"{label} has other schema fields than the contract")
    return fields


def canonical(value: object) -> str:
    """Return the one text of a value: sorted names, no spaces, ASCII."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def identity(value: object) -> str:
    """Return `sha256:` and the digest of the canonical text."""
    return f"sha256:{hashlib.sha256(canonical(value).encode()).hexdigest()}"
