"""Rows of tensors of any shape and one dtype, and rows of dicts of such tensors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from . import tensors
from .columns import Codec, Members, Metadata, Source, Within, checked_nulls, null_mask, within
from .number_rows import decode_arrays, encode_arrays, select_arrays

# dtypes that numpy does not have, as numbers of the same size.
_STAND_INS = {
    "torch.bfloat16": "int16",
    "torch.float8_e4m3fn": "int8",
    "torch.float8_e5m2": "int8",
}
# Names that would be taken for columns of a tensor.
_COLUMNS = frozenset(("data", "offsets", "shapes", "ndims", "nulls"))


def encode(values: list[Any], hints: Mapping[str, Any]) -> tuple[Members, Metadata]:
    """Return rows of tensors as flat numbers; ValueError if their dtypes differ."""
    torch = tensors.torch()
    held = [None if value is None else torch.as_tensor(value).detach().cpu() for value in values]
    names = sorted({str(value.dtype) for value in held if value is not None})
    if len(names) > 1:
        raise ValueError(f"mixed tensor dtype: {', '.join(names)}")
    dtype = names[0] if names else str(hints.get("dtype") or "torch.float32")
    stand_in = _STAND_INS.get(dtype)
    if stand_in is not None:
        kind = getattr(torch, stand_in)
        held = [None if value is None else value.contiguous().view(kind) for value in held]
    arrays = [None if value is None else value.contiguous().numpy() for value in held]
    numbers = stand_in or dtype.removeprefix("torch.")
    members, metadata = encode_arrays(arrays, {"dtype": numbers})
    metadata |= {"dtype": dtype, "numbers": numbers}
    return members, metadata


def decode(members: Mapping[str, Any], rows: int, metadata: Mapping[str, Any]) -> list[Any]:
    """Return the rows as tensors."""
    torch = tensors.torch()
    dtype = tensors.dtype_of(metadata.get("dtype", "torch.float32"))
    numbers = metadata.get("numbers") or str(dtype).removeprefix("torch.")
    arrays = decode_arrays(members, rows, {"dtype": numbers, "row_format": "ndarray"})
    held = [None if it is None else torch.from_numpy(_writable(it)) for it in arrays]
    return [it if it is None or it.dtype == dtype else it.view(dtype) for it in held]


def _writable(array: np.ndarray) -> np.ndarray:
    return array if array.flags.writeable else array.copy()


def encode_dicts(values: list[Any], hints: Mapping[str, Any]) -> tuple[Members, Metadata]:
    """Return rows of dicts of tensors, each key by itself. `hints` may have the "keys"."""
    for row, value in enumerate(values):
        if value is not None and not isinstance(value, Mapping):
            raise TypeError(f"row {row} is a {type(value).__name__}, not a dict of tensors")
    found = {key: None for value in values if value is not None for key in value}
    declared = hints.get("keys")
    keys = _checked_keys(sorted(found, key=str) if declared is None else declared)
    _checked_keys(found)
    for row, value in enumerate(values):
        extra = sorted(set(value or ()) - set(keys))
        if extra:
            raise ValueError(f"row {row} has keys not declared in the schema's keys: {extra}")
        nothing = sorted(key for key, tensor in (value or {}).items() if tensor is None)
        if nothing:
            raise TypeError(f"row {row} has an explicit None for {nothing}; leave the key out")
    members: Members = {"null_mask": null_mask(values)}
    codecs = {}
    for key in keys:
        column = [None if value is None else value.get(key) for value in values]
        try:
            parts, codecs[key] = encode(column, {})
        except (TypeError, ValueError, RuntimeError) as error:
            raise ValueError(f"key {key!r} cannot be encoded: {error}") from error
        members |= {f"{key}.{name}": part for name, part in parts.items()}
    return members, {"keys": keys, "key_codecs": codecs}


def decode_dicts(members: Mapping[str, Any], rows: int, metadata: Mapping[str, Any]) -> list[Any]:
    """Return the rows as dicts."""
    nulls = checked_nulls(members["null_mask"], rows)
    columns = {
        key: decode(within(members, f"{key}."), rows, metadata["key_codecs"][key])
        for key in metadata["keys"]
    }
    return [
        None
        if nulls[row]
        else {key: column[row] for key, column in columns.items() if column[row] is not None}
        for row in range(rows)
    ]


def select_dicts(
    source: Source, rows: Sequence[int], metadata: Mapping[str, Any]
) -> tuple[Members, Metadata]:
    """Read the tensors of some rows."""
    members: Members = {"null_mask": source.rows("null_mask", rows)}
    for key in metadata["keys"]:
        parts, _ = select_arrays(Within(source, f"{key}."), rows, {})
        members |= {f"{key}.{name}": part for name, part in parts.items()}
    return members, dict(metadata)


def _checked_keys(keys: Iterable[Any]) -> list[str]:
    names = list(keys)
    for name in names:
        if not isinstance(name, str) or not name:
            raise ValueError(f"key {name!r} must not be empty or anything but a string")
        if set(name) & set("/\\") or set(name.split(".")[1:]) & _COLUMNS:
            raise ValueError(f"key {name!r} must not contain a slash or end in a column's name")
    return names


TENSORS = Codec(encode, decode, select_arrays)
TENSOR_DICTS = Codec(encode_dicts, decode_dicts, select_dicts)
