"""A complete placement: which worker holds which parts of a model's weights."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, cast

from .. import _checks as check
from .._wire import identity
from ..contracts import (
    PlacementId,
    PlacementSetId,
    ResourceId,
    ResourceKind,
    RevisionId,
)
from .cover import (
    by_tensor_id,
    check_alias_groups,
    check_complete,
    check_fragments,
    grouped,
)
from .part import WeightPlacementPart
from .topology import ParallelTopology
from .types import PlacementFragment, TensorDescriptor

__all__ = ["WeightPlacementManifest"]

_SHARED = ("resource_id", "revision", "weight_generation", "placement_set_id")


@dataclass(frozen=True, kw_only=True)
class WeightPlacementManifest:
    """One generation of a model's weights on all workers of a topology, without addresses.

    `tensors` and `fragments` are those of all parts. `placement_id` is the digest of the content.
    """

    resource_id: ResourceId
    # None asks for the digest of the rest; it is never None afterwards.
    placement_id: PlacementId = cast(PlacementId, None)
    revision: RevisionId
    weight_generation: int
    placement_set_id: PlacementSetId
    topology: ParallelTopology
    parts: tuple[WeightPlacementPart, ...]
    tensors: tuple[TensorDescriptor, ...] = field(init=False)
    fragments: tuple[PlacementFragment, ...] = field(init=False)

    def __post_init__(self) -> None:
        check.texts(self, ("resource_id", "revision", "placement_set_id"))
        check.u64(self.weight_generation, "weight_generation")
        if not isinstance(self.topology, ParallelTopology):
            raise ValueError("topology must be a ParallelTopology")
        parts = check.items(self.parts, "WeightPlacementManifest parts", WeightPlacementPart)
        parts = tuple(sorted(parts, key=lambda part: part.participant_id))
        object.__setattr__(self, "parts", parts)
        self._check_parts()
        object.__setattr__(self, "tensors", self._all_tensors())
        fragments = (fragment for part in parts for fragment in part.fragments)
        ordered = tuple(sorted(fragments, key=lambda it: it.fragment_id))
        object.__setattr__(self, "fragments", ordered)
        check_fragments(self.tensors, self.fragments)
        check_alias_groups(self.tensors, self.fragments)
        check_complete(self.tensors, self.fragments, self.topology)
        self._identify()

    def _check_parts(self) -> None:
        check.unique(
            (part.participant_id for part in self.parts), "duplicate placement participant"
        )
        given = {part.participant_id for part in self.parts}
        expected = {worker.participant_id: worker.rank for worker in self.topology.participants}
        for name in sorted(expected.keys() - given):
            raise ValueError(f"missing topology participant: {name}")
        for part in self.parts:
            if part.participant_id not in expected:
                raise ValueError(f"unknown topology participant: {part.participant_id}")
            for shared in _SHARED:
                if getattr(part, shared) != getattr(self, shared):
                    raise ValueError(f"placement part {shared} differs")
            if part.topology_id != self.topology.topology_id:
                raise ValueError("placement part topology_id differs")
            if part.rank != expected[part.participant_id]:
                raise ValueError("placement part rank differs from topology")

    def _all_tensors(self) -> tuple[TensorDescriptor, ...]:
        tensors = {tensor for part in self.parts for tensor in part.tensors}
        ordered = tuple(sorted(tensors, key=lambda it: it.tensor_id))
        for left, right in zip(ordered, ordered[1:]):
            if left.tensor_id == right.tensor_id:
                raise ValueError(f"placement part tensor descriptor mismatch: {left.tensor_id}")
        return ordered

    def _identify(self) -> None:
        from .serde import placement_content

        name = identity(placement_content(self))
        if self.placement_id is not None:
            check.text(self.placement_id, "placement_id")
            if self.placement_id != name:
                raise ValueError("placement_id does not match canonical logical content")
        object.__setattr__(self, "placement_id", name)

    @property
    def resource_kind(self) -> ResourceKind:
        """Always model weights."""
        return ResourceKind.MODEL_WEIGHT

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the JSON form, in hexadecimal; made once."""
        from . import serde

        return hashlib.sha256(serde.weight_placement_to_json(self).encode()).hexdigest()

    @classmethod
    def from_fragments(
        cls,
        *,
        resource_id: ResourceId,
        revision: RevisionId,
        weight_generation: int,
        placement_set_id: PlacementSetId,
        topology: ParallelTopology,
        tensors: Sequence[TensorDescriptor],
        fragments: Sequence[PlacementFragment],
        placement_id: PlacementId = cast(PlacementId, None),
    ) -> WeightPlacementManifest:
        """Return the placement of a flat list of fragments: each goes to the worker of its rank."""
        known = by_tensor_id(check.items(tensors, "placement tensors", TensorDescriptor))
        flat = check.items(fragments, "placement fragments", PlacementFragment)
        used = {fragment.tensor_id for fragment in flat}
        for tensor_id in sorted(used - known.keys()):
            raise ValueError(f"unknown tensor_id: {tensor_id}")
        for tensor_id in sorted(known.keys() - used):
            raise ValueError(f"global placement contains an unreferenced tensor: {tensor_id}")
        held = grouped(flat, lambda it: it.rank)
        for rank in held.keys() - {worker.rank for worker in topology.participants}:
            raise ValueError(f"placement fragment rank has no topology participant: {rank}")
        shared: dict[str, Any] = {
            "resource_id": resource_id,
            "revision": revision,
            "weight_generation": weight_generation,
            "placement_set_id": placement_set_id,
        }
        parts = []
        for worker in topology.participants:
            mine = held.get(worker.rank, [])
            parts.append(
                WeightPlacementPart(
                    **shared,
                    topology_id=topology.topology_id,
                    participant_id=worker.participant_id,
                    rank=worker.rank,
                    tensors=tuple(known[name] for name in {it.tensor_id for it in mine}),
                    fragments=tuple(mine),
                )
            )
        return cls(**shared, topology=topology, parts=tuple(parts), placement_id=placement_id)
