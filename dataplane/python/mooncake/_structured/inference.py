"""Which codec rows of Python values need, and how rows of dicts and lists come apart into columns.

Invariant: a column has a value for each row. `MISSING` stands where a row has no such key or item,
None where the value is None or the row has no container there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from . import tensors

MAX_DEPTH = 32
MAX_DICT_KEYS = 64
MAX_LIST_ITEMS = 8


class Missing:
    """The type of `MISSING`."""

    def __repr__(self) -> str:
        return "MISSING"


MISSING = Missing()


@dataclass(frozen=True)
class Decision:
    """The codec of a column, or why it has none."""

    accepted: bool
    codec: str
    reason: str = ""


@dataclass
class Leaf:
    """A column that is encoded by one codec."""

    path: str
    values: list[Any]
    decision: Decision


@dataclass
class Node:
    """A column of dicts or lists that is split. `row_mask` says which rows have one."""

    path: str
    node_type: Literal["dict", "list"]
    children: list[Any]
    lengths: list[int] | None = None
    row_mask: list[bool] = field(default_factory=list)
    missing: list[bool] = field(default_factory=list)


def is_bytes(value: Any) -> bool:
    """Whether a value is bytes or the like."""
    return isinstance(value, (bytes, bytearray, memoryview))


def is_image(value: Any) -> bool:
    """Whether a value is an image of PIL."""
    return type(value).__module__.startswith("PIL.") and hasattr(value, "tobytes")


def is_media_list(value: Any) -> bool:
    """Whether a value is a list of images and bytes."""
    return isinstance(value, (list, tuple)) and all(is_image(it) or is_bytes(it) for it in value)


def present(values: Sequence[Any]) -> list[Any]:
    """Return the rows that have a value."""
    return [value for value in values if value is not None and value is not MISSING]


def choose_codec(values: Sequence[Any]) -> Decision:
    """Return the codec for a column by the types of its rows."""
    rows = present(values)
    if not rows:
        return Decision(False, "msgpack_ragged", "no row has a value")
    for codec, fits in _FITS.items():
        if all(fits(row) for row in rows):
            return _checked(codec, rows)
    return Decision(False, "msgpack_ragged", f"rows of {type(rows[0]).__name__} and the like")


def _checked(codec: str, rows: list[Any]) -> Decision:
    if codec == "ragged_tensor":
        names = sorted({str(row.dtype) for row in rows})
        if len(names) > 1:
            return Decision(False, codec, f"mixed tensor dtype: {', '.join(names)}")
    elif codec == "media_list_ragged" and not any(rows):
        return Decision(True, "msgpack_ragged")
    return Decision(True, codec)


def _is_number_array(value: Any) -> bool:
    return isinstance(value, np.ndarray) and np.issubdtype(value.dtype, np.number)


def _is_number_list(value: Any) -> bool:
    if not isinstance(value, (list, tuple)):
        return False
    try:
        return np.issubdtype(np.asarray(value).dtype, np.number)
    except (ValueError, OverflowError):
        return False


# The first that fits all rows is taken.
_FITS: dict[str, Callable[[Any], bool]] = {
    "ragged_tensor": tensors.is_tensor,
    "media_list_ragged": is_media_list,
    "typed_ragged": lambda value: _is_number_array(value) or _is_number_list(value),
    "ndarray": lambda value: isinstance(value, (bool, int, float, np.number)),
    "bytes_ragged": is_bytes,
    "media_bytes": is_image,
    "utf8_ragged": lambda value: isinstance(value, str),
    "msgpack_ragged": lambda value: isinstance(value, (dict, list, tuple)),
}


def infer_structure(
    path: str, values: list[Any], leaves: list[Leaf], nodes: list[Node], *, _depth: int = 0
) -> None:
    """Split a column into `leaves` and the `nodes` above them, which are appended to.

    ValueError if containers are nested deeper than `MAX_DEPTH`.
    """
    if _depth > MAX_DEPTH:
        raise ValueError(f"{path!r} is nested deeper than {MAX_DEPTH} levels")
    keys = _keys_of(values)
    length = None if keys is not None else _length_of(values)
    if keys is None and length is None:
        leaves.append(Leaf(path, values, choose_codec(values)))
        return
    kinds: Any = (list, tuple) if keys is None else dict
    children = list(range(length or 0)) if keys is None else keys
    mask = [isinstance(value, kinds) for value in values]
    lengths = [len(value) if held else 0 for value, held in zip(values, mask)]
    missing = [value is MISSING for value in values]
    kind: Literal["dict", "list"] = "list" if keys is None else "dict"
    nodes.append(Node(path, kind, children, lengths if keys is None else None, mask, missing))
    for child in children:
        column = [_item(value, child) if held else None for value, held in zip(values, mask)]
        infer_structure(child_path(path, kind, child), column, leaves, nodes, _depth=_depth + 1)


def child_path(path: str, kind: str, child: Any) -> str:
    """Return the path of a key or item below a node."""
    return f"{path}[{child}]" if kind == "list" else f"{path}.{escape_key(child)}"


def escape_key(key: str) -> str:
    """Return a key as it stands in a path."""
    return key.replace("\\", "\\\\").replace(".", "\\.").replace("[", "\\[")


def _item(value: Any, child: Any) -> Any:
    if isinstance(value, dict):
        return value.get(child, MISSING)
    return value[child] if child < len(value) else MISSING


def _keys_of(values: list[Any]) -> list[str] | None:
    rows = present(values)
    if not rows or not all(isinstance(row, dict) for row in rows):
        return None
    keys = {key for row in rows for key in row}
    if len(keys) > MAX_DICT_KEYS or not all(isinstance(key, str) for key in keys):
        return None
    return sorted(keys)


def _length_of(values: list[Any]) -> int | None:
    rows = present(values)
    if not rows or not all(isinstance(row, (list, tuple)) for row in rows):
        return None
    items = [item for row in rows for item in row]
    if not all(item is None or isinstance(item, (dict, list, tuple)) for item in items):
        return None
    longest = max(len(row) for row in rows)
    return longest if longest <= MAX_LIST_ITEMS else None
