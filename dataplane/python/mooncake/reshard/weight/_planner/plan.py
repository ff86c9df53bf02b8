"""A plan: the copies that turn one placement, or stored weights, into another placement.

Invariant: a plan fits its source and its target, and each fragment of the workers that it names is
written whole and once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, TypeAlias

from ... import _checks as check
from ...contracts import PlacementId, ResourceId, RevisionId
from ...geometry import regions_exactly_cover
from ..cover import grouped
from ..placement import WeightPlacementManifest
from ..storage_manifest import StoredFragment, StoredManifestIdentity, WeightManifest
from ..types import PlacementFragment, TensorDescriptor
from .contracts import (
    LogicalTransferOperation,
    PipelineRouteGroup,
    PlacementExecutorPlan,
    PlanningLimits,
    TransferRegion,
)
from .geometry import Fragment

__all__ = ["LogicalTransferPlan"]

Executors: TypeAlias = Sequence[PlacementExecutorPlan]


@dataclass(frozen=True)
class LogicalTransferPlan:
    """The copies between a source (a placement or a manifest of the store) and a target."""

    resource_id: ResourceId
    revision: RevisionId
    source_placement: WeightPlacementManifest | None
    target_placement: WeightPlacementManifest
    source_tensors: tuple[TensorDescriptor, ...]
    target_tensors: tuple[TensorDescriptor, ...]
    operations: tuple[LogicalTransferOperation, ...]
    source_manifest: WeightManifest | None = None
    planning_limits: PlanningLimits = field(default_factory=PlanningLimits)
    source_executors: tuple[PlacementExecutorPlan, ...] = ()
    target_executors: tuple[PlacementExecutorPlan, ...] = ()

    def __post_init__(self) -> None:
        for name, kind in (
            ("source_tensors", TensorDescriptor),
            ("target_tensors", TensorDescriptor),
            ("operations", TransferRegion),
            ("source_executors", PlacementExecutorPlan),
            ("target_executors", PlacementExecutorPlan),
        ):
            items = check.items(tuple(getattr(self, name)), f"logical transfer plan {name}", kind)
            object.__setattr__(self, name, items)
        self._check_ends()
        self._check_limits()
        if self.source_placement is not None:
            self._check_placed_source(self.source_placement)
        elif self.source_manifest is not None:
            self._check_stored_source(self.source_manifest)
        self._check_target()

    def __reduce__(self) -> tuple[Any, ...]:
        # A copy from elsewhere is checked as a new plan is.
        return type(self), tuple(getattr(self, it.name) for it in fields(self))

    def _check_ends(self) -> None:
        check.texts(self, ("resource_id", "revision"))
        if not isinstance(self.target_placement, WeightPlacementManifest):
            raise ValueError("logical transfer plan target must be a WeightPlacementManifest")
        source = self.source_placement or self.source_manifest
        if (self.source_placement is None) == (self.source_manifest is None) or not isinstance(
            source, WeightPlacementManifest | WeightManifest
        ):
            raise ValueError("logical transfer plan needs one source: a placement or a manifest")
        for end in (source, self.target_placement):
            if (end.resource_id, end.revision) != (self.resource_id, self.revision):
                raise ValueError("logical transfer plan is for another resource or revision")
        if source.weight_generation != self.target_placement.weight_generation:
            raise ValueError("logical transfer plan source and target weight_generation differ")

    def _check_limits(self) -> None:
        limits = self.planning_limits
        if not isinstance(limits, PlanningLimits):
            raise ValueError("logical transfer plan planning_limits must be PlanningLimits")
        counts = [operation.segment_count for operation in self.operations]
        limits.check("max_transfer_regions", len(counts))
        limits.check("max_segments_per_region", max(counts, default=0))
        limits.check("max_total_lowered_segments", sum(counts))

    def _check_stored_source(self, manifest: WeightManifest) -> None:
        self._check_catalog("source", manifest.tensors)
        known: dict[str, StoredFragment] = {it.fragment_id: it for it in manifest.fragments}
        for operation in self.operations:
            if known.get(operation.source.fragment_id) != operation.source:
                raise ValueError("logical plan and source manifest fragment snapshots differ")

    def _check_placed_source(self, placement: WeightPlacementManifest) -> None:
        self._check_catalog("source", placement.tensors)
        sources = [operation.source for operation in self.operations]
        _check_executors("source", placement, self.source_executors, sources)

    def _check_target(self) -> None:
        placement = self.target_placement
        targets = [operation.target for operation in self.operations]
        _check_executors("target", placement, self.target_executors, targets)
        workers = {executor.participant_id for executor in self.target_executors}
        parts = [part for part in placement.parts if part.participant_id in workers]
        self._check_catalog("target", {tensor for part in parts for tensor in part.tensors})
        written = grouped(self.operations, lambda it: it.target.fragment_id)
        for part in parts:
            for fragment in part.fragments:
                if not regions_exactly_cover(fragment, written.get(fragment.fragment_id, ())):
                    raise ValueError(
                        f"logical target fragment is not fully covered: {fragment.fragment_id}"
                    )

    def _check_catalog(self, side: str, tensors: Iterable[TensorDescriptor]) -> None:
        mine = getattr(self, f"{side}_tensors")
        if mine != tuple(sorted(tensors, key=lambda it: it.tensor_id)):
            raise ValueError(f"logical plan {side} tensor catalog differs from its {side}")

    @property
    def total_bytes(self) -> int:
        """The bytes that are copied."""
        return sum(operation.total_bytes for operation in self.operations)

    @property
    def source_placement_id(self) -> PlacementId | None:
        """The source's name; None for stored weights."""
        return None if self.source_placement is None else self.source_placement.placement_id

    @property
    def target_placement_id(self) -> PlacementId | None:
        """The target's name."""
        return self.target_placement.placement_id

    @property
    def source_manifest_identity(self) -> StoredManifestIdentity | None:
        """Place and digest of the stored weights; None for a placement."""
        return None if self.source_manifest is None else self.source_manifest.manifest_identity

    @cached_property
    def pipeline_routes(self) -> tuple[PipelineRouteGroup, ...]:
        """The operations by the pipeline stages between which they copy."""
        routes = grouped(range(len(self.operations)), lambda at: _route(self.operations[at]))
        ordered = sorted(routes, key=lambda route: [-1 if it is None else it for it in route])
        return tuple(PipelineRouteGroup(*route, tuple(routes[route])) for route in ordered)

    @cached_property
    def _indices(self) -> dict[str, dict[str, list[int]]]:
        numbered = range(len(self.operations))
        return {
            side: grouped(numbered, lambda at: getattr(self.operations[at], side).fragment_id)
            for side in ("source", "target")
        }

    def operation_indices_for_executor(
        self, executor: PlacementExecutorPlan, side: str
    ) -> tuple[int, ...]:
        """Return the numbers of the operations that read from, or write to, one worker."""
        if side not in ("source", "target"):
            raise ValueError(f"side must be source or target, not {side!r}")
        if executor not in getattr(self, f"{side}_executors"):
            raise ValueError(f"{side} executor is not part of this logical plan")
        found = self._indices[side]
        mine = (found.get(name, ()) for name in executor.placement_fragment_ids)
        return tuple(sorted(at for indices in mine for at in indices))


def _route(operation: TransferRegion) -> tuple[int | None, int | None, int, int | None]:
    source, target = operation.source, operation.target
    if isinstance(source, StoredFragment):
        return None, None, target.rank.pp, target.pipeline_stage_id
    return source.rank.pp, source.pipeline_stage_id, target.rank.pp, target.pipeline_stage_id


def executors_of(
    placement: WeightPlacementManifest, used: Iterable[Fragment]
) -> tuple[PlacementExecutorPlan, ...]:
    """Return the workers that hold one of the fragments, by DP, PP, EP and TP rank."""
    names = {fragment.fragment_id for fragment in used}
    parts = [
        part for part in placement.parts if any(it.fragment_id in names for it in part.fragments)
    ]
    parts.sort(key=lambda it: it.rank.along(("dp", "pp", "ep", "tp")))
    return tuple(PlacementExecutorPlan.of(placement.placement_id, part) for part in parts)


def _check_executors(
    side: str,
    placement: WeightPlacementManifest,
    executors: Executors,
    used: Sequence[Fragment],
) -> None:
    """Raise `ValueError` unless fragments and workers of a plan are those of its placement."""
    known: Mapping[str, PlacementFragment] = {it.fragment_id: it for it in placement.fragments}
    if any(known.get(fragment.fragment_id) != fragment for fragment in used):
        raise ValueError(f"logical plan and {side} placement fragment snapshots differ")
    if not executors:
        raise ValueError(f"logical plan has no {side} executor metadata")
    names = (executor.participant_id for executor in executors)
    check.unique(names, f"logical plan has duplicate {side} executor participant")
    if set(executors) != set(executors_of(placement, used)):
        raise ValueError(f"logical {side} executors differ from {side} placement or operations")
