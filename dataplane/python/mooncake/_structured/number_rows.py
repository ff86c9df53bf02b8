"""Rows of numbers: one scalar each, or arrays of any shape one after the other.

Invariant: a number comes back with its value, at most rounded to a float type that a hint asks for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .columns import (
    Codec,
    Members,
    Metadata,
    Source,
    checked_nulls,
    checked_offsets,
    null_mask,
    offsets_of,
    picked,
    ragged_rows,
)
from .sources import ScatteredPayload, array_bytes

ALIGNED = ("shapes", "ndims", "nulls")


def numbers_of(value: Any) -> np.ndarray:
    """Return Python's numbers, nested or not, as an array; ValueError if one would change."""
    array = np.asarray(value)
    if isinstance(value, (np.ndarray, np.generic)) or array.dtype.hasobject:
        return array
    leaves = np.asarray(value, dtype=object).ravel().tolist()
    kinds = set(map(type, leaves))
    # Numbers of one type stay what they are, but for whole ones that do not fit one int type.
    if len(kinds) < 2 and not (int in kinds and array.dtype.kind == "f"):
        return array
    leaves = [leaf.item() if isinstance(leaf, np.generic) else leaf for leaf in leaves]
    if array.dtype.kind != "b" and bool in map(type, leaves):
        raise ValueError("bools are mixed with numbers")
    if any(_differ(*pair) for pair in zip(leaves, array.ravel().tolist())):
        raise ValueError(f"{array.dtype} would change a number")
    return array


def converted(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Return numbers in another type; ValueError if more than the digits of a float would change.

    Whole numbers stay what they are, complex ones complex and finite ones finite.
    """
    if array.dtype == dtype:
        return array
    exact = dtype.kind in "iub" or array.dtype.kind in "iub"
    unfit = ValueError(f"numbers of {array.dtype} do not fit {dtype}")
    if array.dtype.hasobject or (array.dtype.kind == "c" and dtype.kind != "c"):
        raise unfit
    try:
        with np.errstate(invalid="raise", over="ignore"):
            result = array.astype(dtype)
            back = result.astype(array.dtype) if exact else array
    except FloatingPointError:
        raise unfit from None
    if exact and not np.array_equal(array, back):
        raise unfit
    if dtype.kind in "fc" and (np.isfinite(array) & ~np.isfinite(result)).any():
        raise unfit
    return result


def _differ(number: Any, kept: Any) -> bool:
    # Python compares whole numbers and floats exactly. Only a NaN differs from itself.
    return number != kept and number == number


def common_dtype(arrays: Sequence[np.ndarray]) -> np.dtype:
    """Return the type that holds all arrays; those without an element do not count."""
    kinds = [array.dtype for array in arrays if array.size] or [array.dtype for array in arrays]
    dtype = np.result_type(*kinds) if kinds else np.dtype(np.int64)
    if dtype.hasobject:
        raise ValueError("rows of Python objects are no numbers")
    if dtype.kind != "b" and any(kind.kind == "b" for kind in kinds):
        raise ValueError("rows of bools are mixed with numbers")
    return dtype


def encode_arrays(values: list[Any], hints: Mapping[str, Any]) -> tuple[Members, Metadata]:
    """Return rows of arrays as flat data with offsets and shapes. `hints` may have a "dtype"."""
    arrays = [None if value is None else numbers_of(value) for value in values]
    held = [array for array in arrays if array is not None]
    hint = hints.get("dtype")
    dtype = common_dtype(held) if hint is None else np.dtype(hint)
    if dtype.hasobject:
        raise ValueError("typed_ragged needs a dtype of numbers")
    empty = np.empty(0, dtype=dtype)
    flat = [empty if array is None else converted(array, dtype) for array in arrays]
    depth = max((array.ndim for array in held), default=0)
    shapes = np.zeros((len(values), max(depth, 1)), dtype=np.int64)
    ndims = np.zeros(len(values), dtype=np.int16)
    for row, array in enumerate(arrays):
        if array is not None:
            ndims[row] = array.ndim
            shapes[row, : array.ndim] = array.shape
    as_array = [isinstance(value, np.ndarray) for value in values]
    every = all(is_array or value is None for is_array, value in zip(as_array, values))
    total = sum(array.size for array in flat)
    row_format = "ndarray" if every else "mixed" if any(as_array) else "list"
    buffers = tuple(array_bytes(array) for array in flat)
    metadata: Metadata = {
        "dtype": str(dtype),
        "max_ndim": depth,
        "shape_policy": "ragged",
        "row_format": row_format,
        "ndarray_rows": as_array if row_format == "mixed" else None,
        "physical_layout": "contiguous_flat",
    }
    members: Members = {
        "data": ScatteredPayload(buffers, (flat,), dtype.str, (total,)),
        "offsets": offsets_of(array.size for array in flat),
        "shapes": shapes,
        "ndims": ndims,
        "nulls": null_mask(values),
    }
    return members, metadata


def decode_arrays(members: Mapping[str, Any], rows: int, metadata: Mapping[str, Any]) -> list[Any]:
    """Return the rows, arrays as views of the data."""
    dtype = np.dtype(metadata.get("dtype", "int64"))
    data = members["data"]
    if not isinstance(data, np.ndarray):
        data = np.frombuffer(data, dtype=np.uint8)
    data = data.view(dtype) if data.dtype != dtype else data
    offsets = checked_offsets(members["offsets"], rows, data.size)
    nulls = checked_nulls(members["nulls"], rows)
    shapes, ndims = np.asarray(members["shapes"]), np.asarray(members["ndims"])
    row_format = metadata.get("row_format", "list")
    mixed = metadata.get("ndarray_rows") or []
    values: list[Any] = []
    for row in range(rows):
        if nulls[row]:
            values.append(None)
            continue
        array = data[offsets[row] : offsets[row + 1]].reshape(shapes[row, : ndims[row]])
        keeps = row_format == "ndarray" or (row_format == "mixed" and mixed[row])
        values.append(array if keeps else array.tolist())
    return values


def select_arrays(
    source: Source, rows: Sequence[int], metadata: Mapping[str, Any]
) -> tuple[Members, Metadata]:
    """Read the data of some rows."""
    chosen = dict(metadata, ndarray_rows=picked(metadata.get("ndarray_rows"), rows))
    return ragged_rows(source, rows, ALIGNED), chosen


def encode_scalars(values: list[Any], hints: Mapping[str, Any]) -> tuple[Members, Metadata]:
    """Return one number per row, 0 where there is none, with the null mask."""
    held = numbers_of([value for value in values if value is not None])
    hint = hints.get("dtype")
    dtype = np.dtype(held.dtype if held.size else np.int64) if hint is None else np.dtype(hint)
    if dtype.kind not in "iufcb":
        raise ValueError(f"rows of {dtype} are no numbers")
    nulls = null_mask(values)
    data = np.zeros(len(values), dtype=dtype)
    data[~nulls] = converted(held, dtype) if held.size else []
    return {"data": data, "nulls": nulls}, {"dtype": str(dtype), "shape": [len(values)]}


def decode_scalars(members: Mapping[str, Any], rows: int, metadata: Mapping[str, Any]) -> list[Any]:
    """Return the numbers as Python's, None where the mask says so."""
    nulls = checked_nulls(members["nulls"], rows)
    data = np.asarray(members["data"])
    if data.shape != (rows,):
        raise ValueError(f"{data.size} numbers do not fit {rows} rows")
    return [None if null else value for value, null in zip(data.tolist(), nulls)]


def select_scalars(
    source: Source, rows: Sequence[int], metadata: Mapping[str, Any]
) -> tuple[Members, Metadata]:
    """Read the numbers of some rows."""
    return {name: source.rows(name, rows) for name in ("data", "nulls")}, dict(metadata)


ARRAYS = Codec(encode_arrays, decode_arrays, select_arrays)
SCALARS = Codec(encode_scalars, decode_scalars, select_scalars)
