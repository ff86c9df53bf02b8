"""Where one worker's fragments lie in its memory."""

from __future__ import annotations

from dataclasses import dataclass

from .. import _checks as check
from ..contracts import (
    LeaseId,
    ParticipantId,
    PlacementId,
    ResourceId,
    ResourceKind,
    RevisionId,
    RuntimeBindingFragment,
    RuntimeInstanceId,
)

__all__ = ["WeightRuntimeBindingManifest"]


@dataclass(frozen=True)
class WeightRuntimeBindingManifest:
    """The memory of one worker for one placement, valid for a generation and a lease."""

    resource_id: ResourceId
    placement_id: PlacementId
    placement_digest: str
    instance_id: RuntimeInstanceId
    generation: int
    lease_id: LeaseId
    revision: RevisionId
    participant_id: ParticipantId
    fragments: tuple[RuntimeBindingFragment, ...]

    def __post_init__(self) -> None:
        names = ("resource_id", "placement_id", "instance_id", "lease_id", "revision")
        check.texts(self, (*names, "participant_id"))
        check.sha256(self.placement_digest, "placement_digest")
        check.u64(self.generation, "generation")
        name = "WeightRuntimeBindingManifest fragments"
        fragments = check.items(self.fragments, name, RuntimeBindingFragment)
        fragments = tuple(sorted(fragments, key=lambda it: it.placement_fragment_id))
        object.__setattr__(self, "fragments", fragments)
        placements = (it.placement_fragment_id for it in fragments)
        check.unique(placements, "duplicate placement fragment in runtime binding")
        ids = (it.fragment_id for it in fragments)
        check.unique(ids, "duplicate runtime fragment_id in runtime binding")

    @property
    def resource_kind(self) -> ResourceKind:
        """Always model weights."""
        return ResourceKind.MODEL_WEIGHT
