"""Arithmetic of boxes in any number of dimensions: containment, overlap and exact cover.

A box is an offset and a shape, a number per dimension; extents are positive.
"""

from __future__ import annotations

import bisect
import heapq
from collections.abc import Iterable, Sequence
from math import prod
from typing import Protocol, TypeAlias

__all__ = [
    "LogicalBox",
    "OverlapRegion",
    "box_contains",
    "boxes_exactly_cover",
    "boxes_overlap",
    "regions_exactly_cover",
]

Box: TypeAlias = tuple[tuple[int, ...], tuple[int, ...]]

# From three dimensions on, boxes that are near each other are compared in pairs.
_MAX_HIGH_DIMENSIONAL_PAIRWISE_COMPARISONS = 1_000_000


class LogicalBox(Protocol):
    """A part of a tensor."""

    @property
    def global_offset(self) -> tuple[int, ...]: ...
    @property
    def local_shape(self) -> tuple[int, ...]: ...


class OverlapRegion(Protocol):
    """What two parts of a tensor have in common."""

    @property
    def overlap_offset(self) -> tuple[int, ...]: ...
    @property
    def overlap_shape(self) -> tuple[int, ...]: ...


def box_contains(
    outer_offset: tuple[int, ...],
    outer_shape: tuple[int, ...],
    inner_offset: tuple[int, ...],
    inner_shape: tuple[int, ...],
) -> bool:
    """Return whether the inner box lies wholly in the outer one; both have the same rank."""
    rows = zip(outer_offset, outer_shape, inner_offset, inner_shape, strict=True)
    return all(low <= at and at + size <= low + room for low, room, at, size in rows)


def boxes_overlap(boxes: Sequence[Box]) -> bool:
    """Return whether any two boxes share an element.

    One and two dimensions take O(n log n) steps. For more, raises `ValueError` when a million pairs
    do not decide it.
    """
    if len(boxes) < 2:
        return False
    if len(boxes[0][0]) <= 2:
        return _flat_overlap(boxes)
    return _deep_overlap(boxes)


def _flat_overlap(boxes: Sequence[Box]) -> bool:
    """Sweep along the first dimension; intervals of the second are kept apart and sorted."""
    events = []
    for offset, shape in boxes:
        low, high = (offset[1], offset[1] + shape[1]) if len(offset) == 2 else (0, 1)
        events.append((offset[0], True, low, high))
        events.append((offset[0] + shape[0], False, low, high))
    live: list[tuple[int, int]] = []
    for _, begins, low, high in sorted(events):  # ends come before begins
        at = bisect.bisect_left(live, (low, high))
        if not begins:
            del live[at]
            continue
        if (at and live[at - 1][1] > low) or (at < len(live) and live[at][0] < high):
            return True
        live.insert(at, (low, high))
    return False


def _deep_overlap(boxes: Sequence[Box]) -> bool:
    """Sweep along the dimension that tells most boxes apart; compare with those still open."""
    axis = most_distinct_axis(boxes)
    live: list[tuple[int, Box]] = []
    compared = 0
    for box in sorted(boxes, key=lambda it: it[0][axis]):
        while live and live[0][0] <= box[0][axis]:
            heapq.heappop(live)
        compared += len(live)
        if compared > _MAX_HIGH_DIMENSIONAL_PAIRWISE_COMPARISONS:
            raise ValueError("high-dimensional overlap budget is used up; split the tensor")
        if any(_meet(box, other) for _, other in live):
            return True
        heapq.heappush(live, (box[0][axis] + box[1][axis], box))
    return False


def most_distinct_axis(boxes: Sequence[Box]) -> int:
    """Return the first dimension along which the boxes have the most different intervals."""
    axes = range(len(boxes[0][0]))
    return max(axes, key=lambda axis: len({(it[0][axis], it[1][axis]) for it in boxes}))


def _meet(left: Box, right: Box) -> bool:
    rows = zip(*left, *right, strict=True)
    return all(a < b + b_size and b < a + a_size for a, a_size, b, b_size in rows)


def boxes_exactly_cover(
    container_offset: tuple[int, ...],
    container_shape: tuple[int, ...],
    boxes: Sequence[Box],
) -> bool:
    """Return whether the boxes fill the container, stay inside and do not overlap."""
    if not boxes or not all(box_contains(container_offset, container_shape, *it) for it in boxes):
        return False
    # What lies inside, has the volume and does not overlap leaves no gap.
    if sum(prod(shape) for _, shape in boxes) != prod(container_shape):
        return False
    return not boxes_overlap(boxes)


def regions_exactly_cover(target: LogicalBox, regions: Iterable[OverlapRegion]) -> bool:
    """Return whether the regions fill the target, stay inside and do not overlap."""
    boxes = [(region.overlap_offset, region.overlap_shape) for region in regions]
    return boxes_exactly_cover(target.global_offset, target.local_shape, boxes)
