"""Where fragments meet, and at which bytes."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Iterator, Sequence
from math import prod
from typing import Any, NamedTuple, TypeAlias

from ...contracts import canonical_strides_bytes
from ...geometry import Box, most_distinct_axis
from ..storage_manifest import StoredFragment
from ..types import PlacementFragment

Fragment: TypeAlias = PlacementFragment | StoredFragment


class RegionGeometry(NamedTuple):
    """A copy as nested loops: offsets, strides and `inner_bytes` in bytes, counts per loop."""

    source_base_offset: int
    target_base_offset: int
    inner_bytes: int
    outer_loop_counts: tuple[int, ...]
    source_strides: tuple[int, ...]
    target_strides: tuple[int, ...]


def box_of(fragment: Any) -> Box:
    """Return offset and shape of a fragment."""
    return fragment.global_offset, fragment.local_shape


def _itemsize(fragment: Fragment) -> int:
    itemsize, rest = divmod(fragment.nbytes, prod(fragment.local_shape))
    if rest or not itemsize:
        raise ValueError(f"fragment byte size is no multiple of its shape: {fragment.fragment_id}")
    return itemsize


def _base_offset(fragment: Fragment, offset: tuple[int, ...], strides: tuple[int, ...]) -> int:
    rows = zip(offset, fragment.global_offset, strides, strict=True)
    return sum((at - begin) * stride for at, begin, stride in rows)


def region_geometry(
    source: Fragment, target: Fragment, offset: tuple[int, ...], shape: tuple[int, ...]
) -> RegionGeometry:
    """Return the copy of a box with the fewest loops; `ValueError` if item sizes differ.

    Dimensions are joined from the last one on, as long as they are contiguous on both sides.
    """
    itemsize = _itemsize(source)
    if _itemsize(target) != itemsize:
        raise ValueError("transfer region source and target itemsize differ")
    source_strides = canonical_strides_bytes(source.local_shape, itemsize)
    target_strides = canonical_strides_bytes(target.local_shape, itemsize)
    loops = len(shape) - 1
    inner = shape[-1] * itemsize
    while loops and source_strides[loops - 1] == target_strides[loops - 1] == inner:
        loops -= 1
        inner *= shape[loops]
    return RegionGeometry(
        source_base_offset=_base_offset(source, offset, source_strides),
        target_base_offset=_base_offset(target, offset, target_strides),
        inner_bytes=inner,
        outer_loop_counts=shape[:loops],
        source_strides=source_strides[:loops],
        target_strides=target_strides[:loops],
    )


def _overlap_box(source: Fragment, target: Fragment) -> Box | None:
    rows = list(zip(*box_of(source), *box_of(target), strict=True))
    offset = tuple(max(low, other) for low, _, other, _ in rows)
    ends = (min(low + size, other + room) for low, size, other, room in rows)
    shape = tuple(end - low for low, end in zip(offset, ends))
    return (offset, shape) if min(shape) > 0 else None


class BoxIndex:
    """Source fragments of one tensor, found by the box they must meet.

    Fragments with the same box are one group: they hold the same elements.
    """

    def __init__(self, groups: Sequence[Sequence[Fragment]]) -> None:
        self._axis = most_distinct_axis([box_of(group[0]) for group in groups])
        self._groups = sorted(groups, key=lambda group: group[0].global_offset[self._axis])
        places = [self._place(group[0]) for group in self._groups]
        self._lows = [low for low, _ in places]
        self._ends = [end for _, end in places]
        # The furthest end up to each group: where it is too near, no earlier group reaches.
        self._reach = list(itertools.accumulate(self._ends, max))

    def _place(self, fragment: Fragment) -> tuple[int, int]:
        low = fragment.global_offset[self._axis]
        return low, low + fragment.local_shape[self._axis]

    def meeting(self, target: Fragment) -> Iterator[tuple[Box, Sequence[Fragment]]]:
        """Yield the common box and the group, for each group that meets the target."""
        low, end = self._place(target)
        at = bisect.bisect_left(self._lows, end)
        while at and self._reach[at - 1] > low:
            at -= 1
            if self._ends[at] > low:
                common = _overlap_box(self._groups[at][0], target)
                if common is not None:
                    yield common, self._groups[at]
