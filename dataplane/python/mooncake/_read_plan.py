"""What is read of the parts of a tensor, and to where, for a whole or a part of another split."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from ._parallelism import Split
from ._ranges import FEW_PIECES, PIECE_BYTES_MIN, Cut, count_pieces, pieces
from ._tensor_header import DTYPES, HEADER_BYTES, ITEM_BYTES, TensorHeader, write_header


@dataclass(frozen=True)
class Parts:
    """The objects of a tensor that was stored in parts along `dim`, and the split that is wanted."""

    keys: list[str]
    dim: int
    split: Split | None


@dataclass
class ReadPlan:
    """The header of what is wanted, and ranges of objects that go behind it.

    `is_scattered` says that there are many small ranges, which are left out.
    Invariant: the columns have one list for each key, in the order of `keys`.
    """

    header: bytes
    size: int
    is_scattered: bool
    keys: list[str] = field(default_factory=list)
    sources: list[list[int]] = field(default_factory=list)
    targets: list[list[int]] = field(default_factory=list)
    sizes: list[list[int]] = field(default_factory=list)

    @classmethod
    def of(cls, parts: Parts, headers: Sequence[TensorHeader]) -> ReadPlan:
        """Return the plan for parts with these headers; ValueError if they do not fit together."""
        whole, cuts = _boxes(headers, parts.dim)
        wanted = _wanted(whole, parts.split)
        shape, dtype = wanted.shape(whole), headers[0].dtype
        item = ITEM_BYTES[DTYPES.index(dtype)]
        data_bytes = math.prod(shape) * item
        count = sum(count_pieces(whole, cut, wanted) for cut in cuts)
        is_scattered = count > FEW_PIECES and data_bytes < count * PIECE_BYTES_MIN
        # One number without dimensions is planned as one row.
        header = write_header(dtype, shape if headers[0].shape else ())
        plan = cls(header, HEADER_BYTES + data_bytes, is_scattered)
        for key, of_part, cut in zip(parts.keys, headers, () if is_scattered else cuts):
            found = list(pieces(whole, cut, wanted))
            if found:
                plan.keys.append(key)
                plan.sources.append([of_part.data_offset + it.source * item for it in found])
                plan.targets.append([HEADER_BYTES + it.target * item for it in found])
                plan.sizes.append([it.count * item for it in found])
        return plan


def _boxes(headers: Sequence[TensorHeader], dim: int) -> tuple[list[int], list[Cut]]:
    """Return the shape of what parts are parts of, and what each is of it."""
    shapes = [it.shape or (1,) for it in headers]
    first = shapes[0]
    if not -len(first) <= dim < len(first):
        raise ValueError(f"its parts have no dimension {dim}")
    dim = dim % len(first)
    alike = {(it.dtype, shape[:dim], shape[dim + 1 :]) for it, shape in zip(headers, shapes)}
    if len(alike) > 1:
        raise ValueError("its parts do not fit together")
    cuts, end = [], 0
    for shape in shapes:
        cuts.append(Cut(dim, end, end + shape[dim]))
        end += shape[dim]
    return [end if at == dim else length for at, length in enumerate(first)], cuts


def _wanted(whole: Sequence[int], split: Split | None) -> Cut:
    """Return what a split takes of a tensor; ValueError if its parts are not all of one size."""
    if split is None:
        return Cut(0, 0, whole[0])
    if not -len(whole) <= split.dim < len(whole):
        raise ValueError(f"a tensor of {len(whole)} dimensions has no dimension {split.dim}")
    dim = split.dim % len(whole)
    if whole[dim] % split.size:
        raise ValueError(f"{whole[dim]} rows cannot be split into {split.size}")
    rows = whole[dim] // split.size
    return Cut(dim, split.rank * rows, (split.rank + 1) * rows)
