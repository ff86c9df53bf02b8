"""The JSON form of a placement. It equals Mooncake's, so identities and digests do too."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

from .. import _checks as check
from .._wire import canonical, exact, load, mapping
from ..contracts import ResourceKind, TensorId
from .cover import by_tensor_id
from .part import WeightPlacementPart
from .placement import WeightPlacementManifest
from .topology import ParallelTopology, TopologyParticipant
from .types import (
    AXIS_KINDS,
    OwnershipAxis,
    ParallelAxis,
    ParallelRank,
    PlacementFragment,
    ReplicatedAxis,
    SplitAxis,
    TensorDescriptor,
)

AXES: dict[str, type] = {
    "split": SplitAxis,
    "replicated": ReplicatedAxis,
    "ownership": OwnershipAxis,
}
FRAGMENT_FIELDS = frozenset(PlacementFragment.__dataclass_fields__)
TENSOR_FIELDS = frozenset(TensorDescriptor.__dataclass_fields__)
TOPOLOGY_FIELDS = frozenset(ParallelTopology.__dataclass_fields__)
SHARED_FIELDS = ("resource_id", "revision", "weight_generation", "placement_set_id")


def weight_placement_to_json(placement: WeightPlacementManifest) -> str:
    """Return the JSON form: one text for one placement."""
    if not isinstance(placement, WeightPlacementManifest):
        raise ValueError("placement must be a WeightPlacementManifest")
    content = _form(placement)
    content["resource_kind"] = placement.resource_kind.value
    content["placement_id"] = placement.placement_id
    return canonical(content)


def placement_content(placement: WeightPlacementManifest) -> dict[str, Any]:
    """Return what the identity of a placement is the digest of."""
    return {"schema": "complete-weight-placement", **_form(placement)}


def _form(placement: WeightPlacementManifest) -> dict[str, Any]:
    form: dict[str, Any] = {name: getattr(placement, name) for name in SHARED_FIELDS}
    form["topology"] = asdict(placement.topology)
    form["tensors"] = [tensor_form(tensor) for tensor in placement.tensors]
    form["parts"] = [
        {
            "participant_id": part.participant_id,
            "rank": asdict(part.rank),
            "fragments": [_fragment_form(fragment) for fragment in part.fragments],
        }
        for part in placement.parts
    ]
    return form


def tensor_form(tensor: TensorDescriptor) -> dict[str, Any]:
    """Return the JSON form of a tensor."""
    return {**asdict(tensor), "parallel_axes": [_axis_form(it) for it in tensor.parallel_axes]}


def _axis_form(axis: ParallelAxis) -> dict[str, Any]:
    [semantics] = [word for word, kind in AXES.items() if isinstance(axis, kind)]
    return {"semantics": semantics, **asdict(axis)}


def _fragment_form(fragment: PlacementFragment) -> dict[str, Any]:
    form = asdict(fragment)
    if fragment.pipeline_stage_id is None:
        # Placements from before there were stages keep their digest.
        del form["pipeline_stage_id"]
    return form


def weight_placement_from_json(value: str) -> WeightPlacementManifest:
    """Return the placement of a JSON text; raises `ValueError` for any other form or content."""
    label = "placement manifest"
    names = (*SHARED_FIELDS, "resource_kind", "placement_id", "topology", "tensors", "parts")
    form = exact(load(value, label), names, label)
    if form["resource_kind"] != ResourceKind.MODEL_WEIGHT.value:
        raise ValueError("placement manifest resource_kind must be model_weight")
    check.text(form["placement_id"], "placement_id")
    shared = {name: form[name] for name in SHARED_FIELDS}
    topology = _topology(form["topology"])
    known = by_tensor_id(map(tensor_of, check.sequence(form["tensors"], "placement tensors")))
    parts = [
        _part(part, shared, topology, known)
        for part in check.sequence(form["parts"], "placement parts")
    ]
    used = {tensor.tensor_id for part in parts for tensor in part.tensors}
    for tensor_id in sorted(known.keys() - used):
        raise ValueError(f"placement JSON contains an unreferenced tensor: {tensor_id}")
    return WeightPlacementManifest(
        **shared, placement_id=form["placement_id"], topology=topology, parts=tuple(parts)
    )


def _topology(value: object) -> ParallelTopology:
    form = exact(value, TOPOLOGY_FIELDS, "parallel topology")
    check.text(form["topology_id"], "topology_id")
    workers = []
    for item in check.sequence(form["participants"], "parallel topology participants"):
        worker = exact(item, ("participant_id", "rank"), "topology participant")
        workers.append(TopologyParticipant(worker["participant_id"], _rank(worker["rank"])))
    return ParallelTopology(**{**form, "participants": tuple(workers)})


def _rank(value: object) -> ParallelRank:
    return ParallelRank(**exact(value, AXIS_KINDS, "parallel rank"))


def tensor_of(value: object) -> TensorDescriptor:
    """Return the tensor of a JSON form."""
    form = exact(value, TENSOR_FIELDS, "tensor descriptor")
    axes = check.sequence(form["parallel_axes"], "tensor parallel_axes")
    return TensorDescriptor(**{**form, "parallel_axes": tuple(map(_axis, axes))})


def _axis(value: object) -> ParallelAxis:
    form = mapping(value, "parallel axis")
    kind = AXES.get(check.text(form.get("semantics"), "axis semantics"))
    if kind is None:
        raise ValueError(f"unsupported parallel axis semantics: {form['semantics']}")
    form = exact(form, ("semantics", *(it.name for it in fields(kind))), "parallel axis")
    return kind(**{name: item for name, item in form.items() if name != "semantics"})


def _part(
    value: object,
    shared: Mapping[str, Any],
    topology: ParallelTopology,
    known: Mapping[TensorId, TensorDescriptor],
) -> WeightPlacementPart:
    form = exact(value, ("participant_id", "rank", "fragments"), "placement part")
    items = check.sequence(form["fragments"], "placement part fragments")
    fragments = tuple(map(_fragment, items))
    used = {fragment.tensor_id for fragment in fragments}
    for tensor_id in sorted(used - known.keys()):
        raise ValueError(f"unknown tensor_id in placement part: {tensor_id}")
    return WeightPlacementPart(
        **shared,
        topology_id=topology.topology_id,
        participant_id=form["participant_id"],
        rank=_rank(form["rank"]),
        tensors=tuple(known[tensor_id] for tensor_id in used),
        fragments=fragments,
    )


def _fragment(value: object) -> PlacementFragment:
    given = {"pipeline_stage_id": None, **mapping(value, "placement fragment")}
    form = exact(given, FRAGMENT_FIELDS, "placement fragment")
    check.text(form["placement_fragment_id"], "placement_fragment_id")
    return PlacementFragment(**{**form, "rank": _rank(form["rank"])})
