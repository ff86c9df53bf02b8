"""Which rows of a member are read, and the bytes of a payload that they are.

Invariant: rows are counted from 0 and lie below the number of rows.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any

from .model import StructuredMemberSlice
from .reader import Range, merged

# Rows may have no bytes, so this many need none.
ROWS_WITHOUT_BYTES = 1 << 20

Rows = Any  # slice | StructuredMemberSlice | Sequence[int] | None


def chosen_rows(rows: Rows, total: int) -> list[int] | None:
    """Return the numbers of the rows that are chosen, None if all are.

    A negative number counts from the end. IndexError for a row that is not there, TypeError for
    what is no number, ValueError for a step below 1 or another axis than 0.
    """
    if rows is None:
        return None
    if isinstance(rows, StructuredMemberSlice):
        if rows.axis != 0:
            raise ValueError(f"rows are chosen along axis=0, not axis={rows.axis}")
        rows = slice(rows.start, rows.end, rows.step)
    if isinstance(rows, slice):
        if rows.step is not None and rows.step < 1:
            raise ValueError(f"the step must be positive, not {rows.step}")
        return list(range(total)[rows])
    return [_row(row, total) for row in rows]


def stored_rows(total: int, size: int) -> int:
    """Return the rows of a payload of `size` bytes; ValueError if it cannot have as many."""
    if total > max(size, ROWS_WITHOUT_BYTES):
        raise ValueError(f"{size} bytes are no {total} rows")
    return total


def _row(row: Any, total: int) -> int:
    try:
        number = operator.index(row)
    except TypeError:
        raise TypeError(f"row indices must be integers, not {row!r}") from None
    if not -total <= number < total:
        raise IndexError(f"row {number} is out of range: there are {total} rows")
    return number % total


def row_ranges(rows: Iterable[int], row_bytes: int, offset: int = 0) -> list[Range]:
    """Return the bytes of rows that have `row_bytes` bytes each, the first one at `offset`."""
    return merged((offset + row * row_bytes, row_bytes) for row in rows)
