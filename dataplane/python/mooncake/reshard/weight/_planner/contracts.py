"""What a plan consists of: limits, copies, workers and routes between pipeline stages."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, fields
from math import prod
from typing import TypeAlias

from ... import _checks as check
from ...contracts import ParticipantId, PlacementFragmentId, PlacementId, TensorId
from ...geometry import box_contains
from ..part import WeightPlacementPart
from ..types import ParallelRank, PlacementFragment
from .geometry import Fragment, RegionGeometry, box_of, region_geometry

__all__ = [
    "LogicalTransferOperation",
    "PipelineRouteGroup",
    "PlacementExecutorPlan",
    "PlanningLimits",
    "TransferRegion",
]


@dataclass(frozen=True)
class PlanningLimits:
    """Bounds of a plan; a plan above one of them is refused."""

    max_transfer_regions: int = 1_000_000
    max_segments_per_region: int = 1_000_000
    max_total_lowered_segments: int = 10_000_000

    def __post_init__(self) -> None:
        for it in fields(self):
            check.whole(getattr(self, it.name), f"planning limit {it.name}", 1)

    def check(self, name: str, count: int) -> None:
        """Raise `ValueError` if a count is above the limit of that name."""
        limit = getattr(self, name)
        if count > limit:
            raise ValueError(f"logical transfer plan exceeds {name}: {count} > {limit}")


@dataclass(frozen=True)
class PipelineRouteGroup:
    """The operations (numbers in the plan) between two pipeline stages; None: from the store."""

    source_pp: int | None
    source_pipeline_stage_id: int | None
    target_pp: int
    target_pipeline_stage_id: int | None
    operation_indices: tuple[int, ...]

    def __post_init__(self) -> None:
        check.optional_whole(self.source_pp, "pipeline route source_pp")
        check.whole(self.target_pp, "pipeline route target_pp")
        for name in ("source_pipeline_stage_id", "target_pipeline_stage_id"):
            check.optional_whole(getattr(self, name), f"pipeline route {name}")
        indices = check.wholes(tuple(self.operation_indices), "pipeline route operation_indices")
        check.unique(indices, "pipeline route has duplicate operation indices")
        object.__setattr__(self, "operation_indices", indices)


@dataclass(frozen=True)
class TransferRegion:
    """A box that is copied from one fragment to another; offsets and strides in bytes.

    Invariant: the loops are those of `region_geometry`, so a region stays inside both fragments.
    """

    tensor_id: TensorId
    source: Fragment
    target: PlacementFragment
    overlap_offset: tuple[int, ...]
    overlap_shape: tuple[int, ...]
    source_base_offset: int
    target_base_offset: int
    inner_bytes: int
    outer_loop_counts: tuple[int, ...]
    source_strides: tuple[int, ...]
    target_strides: tuple[int, ...]

    def __post_init__(self) -> None:
        for name in RegionGeometry._fields[3:]:
            values = check.wholes(getattr(self, name), f"transfer region {name}")
            object.__setattr__(self, name, values)
        box = (
            check.wholes(self.overlap_offset, "transfer region overlap_offset"),
            check.wholes(self.overlap_shape, "transfer region overlap_shape", 1),
        )
        object.__setattr__(self, "overlap_offset", box[0])
        object.__setattr__(self, "overlap_shape", box[1])
        for side in (self.source, self.target):
            if side.tensor_id != check.text(self.tensor_id, "transfer region tensor_id"):
                raise ValueError("transfer region tensor mismatch")
            if not len(box[0]) == len(box[1]) == len(side.global_offset):
                raise ValueError("transfer region logical rank mismatch")
            if not box_contains(*box_of(side), *box):
                raise ValueError(f"transfer region exceeds fragment {side.fragment_id}")
        for name, value in region_geometry(self.source, self.target, *box)._asdict().items():
            if getattr(self, name) != value or isinstance(getattr(self, name), bool):
                raise ValueError(f"transfer region {name} is not the canonical {value}")

    @classmethod
    def between(
        cls,
        source: Fragment,
        target: PlacementFragment,
        offset: tuple[int, ...],
        shape: tuple[int, ...],
    ) -> TransferRegion:
        """Return the copy of a box that both fragments hold."""
        geometry = region_geometry(source, target, offset, shape)
        return cls(target.tensor_id, source, target, offset, shape, *geometry)

    @property
    def segment_count(self) -> int:
        """The number of contiguous pieces."""
        return prod(self.outer_loop_counts)

    repeat = segment_count

    @property
    def total_bytes(self) -> int:
        """The bytes of all pieces."""
        return self.inner_bytes * self.segment_count

    @property
    def source_offset(self) -> int:
        """Where the first piece begins in the source."""
        return self.source_base_offset

    @property
    def target_offset(self) -> int:
        """Where the first piece begins in the target."""
        return self.target_base_offset

    @property
    def nbytes(self) -> int:
        """The bytes of one piece."""
        return self.inner_bytes

    @property
    def source_stride(self) -> int:
        """The stride of the only loop in the source; 0 without one, `ValueError` for several."""
        return _only(self.source_strides)

    @property
    def target_stride(self) -> int:
        """The stride of the only loop in the target; 0 without one, `ValueError` for several."""
        return _only(self.target_strides)

    def iter_segments(self, *, max_segments: int) -> Iterator[tuple[int, int, int]]:
        """Yield (source offset, target offset, bytes) of each piece; at most `max_segments`."""
        check.whole(max_segments, "max_segments", 1)
        if self.segment_count > max_segments:
            raise ValueError(
                f"transfer region exceeds max_segments: {self.segment_count} > {max_segments}"
            )
        for turn in itertools.product(*map(range, self.outer_loop_counts)):
            source = sum(at * stride for at, stride in zip(turn, self.source_strides))
            target = sum(at * stride for at, stride in zip(turn, self.target_strides))
            yield (
                self.source_base_offset + source,
                self.target_base_offset + target,
                self.inner_bytes,
            )


def _only(strides: tuple[int, ...]) -> int:
    if len(strides) > 1:
        raise ValueError("transfer region has several loops; use iter_segments")
    return strides[0] if strides else 0


LogicalTransferOperation: TypeAlias = TransferRegion


@dataclass(frozen=True)
class PlacementExecutorPlan:
    """A worker that takes part in a plan, and the fragments that it holds."""

    placement_id: PlacementId
    participant_id: ParticipantId
    rank: ParallelRank
    placement_fragment_ids: tuple[PlacementFragmentId, ...]

    def __post_init__(self) -> None:
        check.texts(self, ("placement_id", "participant_id"))
        ids = tuple(self.placement_fragment_ids)
        if not ids:
            raise ValueError("placement executor has no fragments")
        check.unique(ids, "placement executor has duplicate fragment IDs")
        object.__setattr__(self, "placement_fragment_ids", ids)

    @classmethod
    def of(cls, placement_id: PlacementId, part: WeightPlacementPart) -> PlacementExecutorPlan:
        """Return the worker of one part of a placement."""
        ids = tuple(fragment.fragment_id for fragment in part.fragments)
        return cls(placement_id, part.participant_id, part.rank, ids)
