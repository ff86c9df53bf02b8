"""Makes plans: finds for each target fragment the source fragments that fill it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from ...contracts import ParticipantId, TensorId
from ...geometry import Box, boxes_exactly_cover
from ..cover import by_tensor_id, grouped
from ..part import WeightPlacementPart
from ..placement import WeightPlacementManifest
from ..storage_manifest import StoredFragment, WeightManifest
from ..types import PlacementFragment, TensorDescriptor
from .contracts import PlanningLimits, TransferRegion
from .geometry import BoxIndex, Fragment, box_of
from .ownership import SourceChoice
from .plan import LogicalTransferPlan, executors_of

__all__ = [
    "plan_placement_transfer",
    "plan_placement_transfer_to_local_target",
    "plan_stored_transfer_to_target_placement",
]

Tensors: TypeAlias = Mapping[TensorId, TensorDescriptor]


def plan_placement_transfer(
    source_placement: WeightPlacementManifest,
    target_placement: WeightPlacementManifest,
    *,
    planning_limits: PlanningLimits | None = None,
) -> LogicalTransferPlan:
    """Return the plan from one complete placement to another; raises `ValueError` if there is none."""
    _check_kind(source_placement, WeightPlacementManifest, "source")
    _check_kind(target_placement, WeightPlacementManifest, "target")
    return _plan(source_placement, target_placement, target_placement.parts, planning_limits)


def plan_placement_transfer_to_local_target(
    source_placement: WeightPlacementManifest,
    target_placement: WeightPlacementManifest,
    target_participant_id: ParticipantId | None = None,
    *,
    planning_limits: PlanningLimits | None = None,
) -> LogicalTransferPlan:
    """Return the plan for one worker of the target, which may be left out if it is the only one."""
    _check_kind(source_placement, WeightPlacementManifest, "source")
    _check_kind(target_placement, WeightPlacementManifest, "target")
    if target_participant_id is None:
        if target_placement.topology.world_size != 1:
            raise ValueError("target_participant_id is required for a multi-participant target")
        target_participant_id = target_placement.parts[0].participant_id
    parts = [it for it in target_placement.parts if it.participant_id == target_participant_id]
    if not parts:
        raise ValueError(f"unknown target participant: {target_participant_id}")
    if not parts[0].fragments:
        raise ValueError("local target manifest has no fragments")
    return _plan(source_placement, target_placement, parts, planning_limits)


def plan_stored_transfer_to_target_placement(
    source_manifest: WeightManifest,
    target_placement: WeightPlacementManifest,
    *,
    planning_limits: PlanningLimits | None = None,
) -> LogicalTransferPlan:
    """Return the plan from stored weights to a complete placement."""
    _check_kind(source_manifest, WeightManifest, "source")
    _check_kind(target_placement, WeightPlacementManifest, "target")
    return _plan(source_manifest, target_placement, target_placement.parts, planning_limits)


def _check_kind(value: object, kind: type, side: str) -> None:
    if not isinstance(value, kind):
        raise ValueError(f"{side} must be a {kind.__name__}")


def _plan(
    source: WeightPlacementManifest | WeightManifest,
    target: WeightPlacementManifest,
    parts: Sequence[WeightPlacementPart],
    limits: PlanningLimits | None,
) -> LogicalTransferPlan:
    for name in ("resource_id", "revision", "weight_generation"):
        if getattr(source, name) != getattr(target, name):
            raise ValueError(f"source and target {name} differ")
    limits = limits or PlanningLimits()
    placed, stored = (
        (source, None) if isinstance(source, WeightPlacementManifest) else (None, source)
    )
    source_tensors = by_tensor_id(source.tensors)
    target_tensors = {it.tensor_id: it for part in parts for it in part.tensors}
    _check_tensors(source_tensors, target_tensors, all_of_them=len(parts) == len(target.parts))
    fragments = [fragment for part in parts for fragment in part.fragments]
    operations = _operations(source, source_tensors, fragments, limits)
    operations.sort(key=_order)
    return LogicalTransferPlan(
        resource_id=target.resource_id,
        revision=target.revision,
        source_placement=placed,
        target_placement=target,
        source_tensors=_catalog(source_tensors),
        target_tensors=_catalog(target_tensors),
        operations=tuple(operations),
        source_manifest=stored,
        planning_limits=limits,
        source_executors=executors_of(placed, (it.source for it in operations)) if placed else (),
        target_executors=executors_of(target, fragments),
    )


def _catalog(tensors: Tensors) -> tuple[TensorDescriptor, ...]:
    return tuple(sorted(tensors.values(), key=lambda it: it.tensor_id))


def _order(region: TransferRegion) -> tuple[str, int, str, int]:
    ids = region.target.fragment_id, region.source.fragment_id
    return ids[0], region.target_base_offset, ids[1], region.source_base_offset


def _check_tensors(source: Tensors, target: Tensors, all_of_them: bool) -> None:
    missing, unknown = sorted(source.keys() - target.keys()), sorted(target.keys() - source.keys())
    if missing and all_of_them:
        raise ValueError(f"target manifests are missing tensors: {', '.join(missing)}")
    if unknown:
        raise ValueError(f"target manifests contain unknown tensors: {', '.join(unknown)}")
    for tensor_id, wanted in target.items():
        given = source[tensor_id]
        if given.layout_fingerprint != wanted.layout_fingerprint:
            raise ValueError(f"layout mismatch for tensor {tensor_id}")
        # How the tensor is split may differ, that is what a plan is for.
        for name in ("global_shape", "dtype", "itemsize", "layer_id", "expert_id"):
            if getattr(given, name) != getattr(wanted, name):
                raise ValueError(f"tensor descriptor mismatch: {tensor_id}: {name}")


def _operations(
    source: WeightPlacementManifest | WeightManifest,
    tensors: Tensors,
    targets: Iterable[PlacementFragment],
    limits: PlanningLimits,
) -> list[TransferRegion]:
    choice = None
    if isinstance(source, WeightPlacementManifest):
        choice = SourceChoice(tensors, source.fragments)
    indexes = _indexes(source.fragments)
    operations: list[TransferRegion] = []
    for target in targets:
        found = list(_sources(indexes[target.tensor_id], target, choice))
        if not boxes_exactly_cover(*box_of(target), [box for box, _ in found]):
            raise ValueError(f"target fragment is not fully covered: {target.fragment_id}")
        limits.check("max_transfer_regions", len(operations) + len(found))
        operations += [TransferRegion.between(it, target, *box) for box, it in found]
    return operations


def _indexes(fragments: Iterable[Fragment]) -> dict[TensorId, BoxIndex]:
    ordered = sorted(fragments, key=_preference)
    boxes = grouped(ordered, lambda it: (it.tensor_id, box_of(it)))
    groups = grouped(boxes.values(), lambda group: group[0].tensor_id)
    return {tensor_id: BoxIndex(mine) for tensor_id, mine in groups.items()}


def _preference(fragment: Fragment) -> tuple:
    if isinstance(fragment, StoredFragment):
        return fragment.object_key, fragment.fragment_id
    rank = fragment.rank
    return rank.dp, rank.pp, rank.ep, rank.tp, fragment.fragment_id


def _sources(
    index: BoxIndex, target: PlacementFragment, choice: SourceChoice | None
) -> Iterator[tuple[Box, Fragment]]:
    """Yield the boxes of a target with the fragment to copy each from."""
    for box, group in index.meeting(target):
        for source in group:
            if choice is None or isinstance(source, StoredFragment) or choice.serves(source, target):
                yield box, source
                break
