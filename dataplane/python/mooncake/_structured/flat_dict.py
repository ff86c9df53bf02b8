"""A flat dict as a batch: which of its values are rows, and which belong to all rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .batch import Batch, Schemas, is_dense, is_list, rows_of, section_of
from .model import FieldSchema


def as_batch(data: Any, schemas: Schemas | None) -> Batch:
    """Return a batch of a flat dict.

    Fields go where their schema says. Of the others arrays and tensors with the number of rows go
    to `batch`; sequences of that length to `non_tensor_batch` unless a schema has set the number;
    the rest to `meta_info`. ValueError if the number of rows is ambiguous.
    """
    if not isinstance(data, Mapping):
        raise TypeError(f"a flat dict must be a mapping, not {type(data).__name__}")
    schemas = schemas or {}
    sections = {it: section_of(it, schemas[it]) for it in data if it in schemas}
    declared = {rows_of(it, data[it]) for it, where in sections.items() if where in _WITH_ROWS}
    if len(declared) > 1:
        raise ValueError(f"fields with a schema have inconsistent batch sizes: {sorted(declared)}")
    loose = {name: value for name, value in data.items() if sections.get(name) != "meta_info"}
    rows = declared.pop() if declared else _rows_of_all(loose)
    by_schema = any(where in _WITH_ROWS for where in sections.values())
    batch = Batch({}, {}, {})
    for name, value in data.items():
        section = sections.get(name) or _guessed(value, rows, by_schema)
        if section == "non_tensor_batch":
            value = _row_array(name, value, rows, schemas.get(name))
        getattr(batch, section)[name] = value
    return batch


_WITH_ROWS = ("batch", "non_tensor_batch")


def _rows_of_all(data: Mapping[str, Any]) -> int:
    dense = {len(value) for value in data.values() if is_dense(value)}
    rows = dense or {len(value) for value in data.values() if _has_rows(value)}
    if len(rows) > 1:
        raise ValueError(
            f"the batch size is ambiguous: there are fields of {sorted(rows)} rows; "
            "name the section of each field in its FieldSchema"
        )
    return rows.pop() if rows else 0


def _has_rows(value: Any) -> bool:
    return is_list(value) or (isinstance(value, np.ndarray) and value.ndim > 0)


def _guessed(value: Any, rows: int, by_schema: bool) -> str:
    if not _has_rows(value) and not is_dense(value) or not rows or len(value) != rows:
        return "meta_info"
    if is_dense(value):
        return "batch"
    return "meta_info" if by_schema and is_list(value) else "non_tensor_batch"


def _row_array(name: str, value: Any, rows: int, schema: FieldSchema | None) -> np.ndarray:
    if not _has_rows(value):
        raise TypeError(f"field {name!r} must be an array or a sequence to have rows")
    if len(value) != rows:
        raise ValueError(f"field {name!r} has {len(value)} rows, the batch has {rows}")
    if isinstance(value, np.ndarray):
        dtype = schema.metadata.get("dtype") if schema and schema.codec == "ndarray" else None
        whole = dtype is not None and not any(item is None for item in value)
        return np.asarray(value, dtype=dtype) if whole else value
    array = np.empty(rows, dtype=object)
    for row, item in enumerate(value):
        array[row] = item
    return array
