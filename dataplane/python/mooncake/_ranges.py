"""Which bytes of the parts of a tensor make the whole, or a part of another split.

Parts and wanted tensor are boxes of the whole, cut along one dimension each, in row-major order.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

#: Of many pieces that are shorter than this, whole parts are read and put together in memory.
PIECE_BYTES_MIN = 4 << 10
FEW_PIECES = 1 << 12


@dataclass(frozen=True)
class Cut:
    """The rows from `begin` up to `end` of one dimension."""

    dim: int
    begin: int
    end: int

    def shape(self, whole: Sequence[int]) -> list[int]:
        """The shape of what is cut out of a tensor of this shape."""
        return [self.end - self.begin if at == self.dim else it for at, it in enumerate(whole)]

    def within(self, dim: int, length: int) -> tuple[int, int]:
        """The rows of a dimension of this length that are cut out."""
        return (self.begin, self.end) if dim == self.dim else (0, length)


@dataclass(frozen=True)
class Piece:
    """Elements that lie one after the other in the part and in what is wanted."""

    source: int
    target: int
    count: int


def pieces(whole: Sequence[int], part: Cut, wanted: Cut) -> Iterator[Piece]:
    """What a part has of what is wanted of a tensor of this shape, which has one dimension at least."""
    rows = []
    for dim, length in enumerate(whole):
        both = part.within(dim, length), wanted.within(dim, length)
        rows.append((max(it[0] for it in both), min(it[1] for it in both)))
    if any(begin >= end for begin, end in rows):
        return
    source, target = part.shape(whole), wanted.shape(whole)
    # Behind the last dimension of which only some rows are taken all lies together.
    last = len(whole) - 1
    while last > 0 and rows[last][1] - rows[last][0] == source[last] == target[last]:
        last -= 1
    behind = math.prod(source[last + 1 :])
    count = (rows[last][1] - rows[last][0]) * behind
    for outer in itertools.product(*(range(*it) for it in rows[:last])):
        place = [*outer, rows[last][0]]
        offsets = [_offset(place, cut, shape) for cut, shape in ((part, source), (wanted, target))]
        yield Piece(offsets[0] * behind, offsets[1] * behind, count)


def _offset(place: Sequence[int], cut: Cut, shape: Sequence[int]) -> int:
    offset = 0
    for dim, at in enumerate(place):
        offset = offset * shape[dim] + at - (cut.begin if dim == cut.dim else 0)
    return offset


def count_pieces(whole: Sequence[int], part: Cut, wanted: Cut) -> int:
    """At most how many pieces there are."""
    return math.prod(whole[: max(part.dim, wanted.dim)])
