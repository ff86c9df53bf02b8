"""The arrays that a codec makes of rows, and reading those of some rows only."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from .reader import Range, merged

# Arrays, bytes or payloads in several buffers, by name.
Members = dict[str, Any]
Metadata = dict[str, Any]


class Source(Protocol):
    """Stored columns of one encoded field."""

    def whole(self, name: str) -> Any:
        """Return a column."""

    def rows(self, name: str, rows: Sequence[int]) -> Any:
        """Return rows of a column."""

    def elements(self, name: str, ranges: Sequence[Range]) -> Any:
        """Return elements of a flat column: first element and count of each range."""


class Within:
    """The columns of a source whose names begin with a prefix."""

    def __init__(self, source: Source, prefix: str) -> None:
        self._source, self._prefix = source, prefix

    def whole(self, name: str) -> Any:
        """As `Source.whole`."""
        return self._source.whole(self._prefix + name)

    def rows(self, name: str, rows: Sequence[int]) -> Any:
        """As `Source.rows`."""
        return self._source.rows(self._prefix + name, rows)

    def elements(self, name: str, ranges: Sequence[Range]) -> Any:
        """As `Source.elements`."""
        return self._source.elements(self._prefix + name, ranges)


def within(members: Mapping[str, Any], prefix: str) -> Members:
    """Return the members whose names begin with a prefix, without it."""
    return {name[len(prefix) :]: it for name, it in members.items() if name.startswith(prefix)}


def offsets_of(lengths: Iterable[int]) -> np.ndarray:
    """Return where each row begins, and the end of the last."""
    return np.concatenate([[0], np.cumsum(list(lengths), dtype=np.int64)]).astype(np.int64)


def null_mask(values: Sequence[Any]) -> np.ndarray:
    """Return which rows are None."""
    return np.asarray([value is None for value in values], dtype=np.bool_)


def checked_offsets(offsets: Any, rows: int, size: int) -> np.ndarray:
    """Return offsets of `rows` rows in `size` elements; ValueError if they do not fit."""
    array = np.asarray(offsets)
    if array.ndim != 1 or array.dtype.kind not in "iu" or len(array) != rows + 1 or not rows + 1:
        raise ValueError(f"the offsets length {array.size} does not fit {rows} rows")
    # Differences of unsigned numbers are never below 0.
    if array[0] != 0 or array[-1] != size or (array[1:] < array[:-1]).any():
        raise ValueError(f"the offsets do not go from 0 to {size}")
    return array


def stored_offsets(offsets: Any, size: int | None = None) -> np.ndarray:
    """Return offsets of any number of rows in `size` elements, None if that is not known."""
    array = np.asarray(offsets)
    last = int(array[-1]) if size is None and array.size and array.ndim == 1 else size or 0
    return checked_offsets(array, array.size - 1, last)


def checked_nulls(nulls: Any, rows: int) -> np.ndarray:
    """Return the null mask of `rows` rows; ValueError if it has another length."""
    array = np.asarray(nulls, dtype=np.bool_)
    if array.shape != (rows,):
        raise ValueError(f"the nulls length {array.size} does not fit {rows} rows")
    return array


def ragged_rows(source: Source, rows: Sequence[int], aligned: Iterable[str]) -> Members:
    """Return flat data, its offsets and the row-aligned columns of some rows."""
    offsets = stored_offsets(source.whole("offsets"))
    starts = [int(offsets[row]) for row in rows]
    lengths = [int(offsets[row + 1]) - start for row, start in zip(rows, starts)]
    members = {name: source.rows(name, rows) for name in aligned}
    members["data"] = source.elements("data", merged(zip(starts, lengths)))
    members["offsets"] = offsets_of(lengths)
    return members


def picked(values: Any, rows: Sequence[int]) -> Any:
    """Return the items of a list in the metadata that belong to some rows; None stays None."""
    return None if values is None else [values[row] for row in rows]


class Codec:
    """One way to store rows: `encode`, `decode` and `select`.

    `encode(values, hints)` returns members and metadata; `decode(members, rows, metadata)` the
    values. `select(source, rows, metadata)` reads what `decode` needs for some rows.
    """

    def __init__(
        self,
        encode: Callable[[list[Any], Mapping[str, Any]], tuple[Members, Metadata]],
        decode: Callable[[Mapping[str, Any], int, Mapping[str, Any]], list[Any]],
        select: Callable[[Source, Sequence[int], Mapping[str, Any]], tuple[Members, Metadata]],
    ) -> None:
        self.encode, self.decode, self.select = encode, decode, select
