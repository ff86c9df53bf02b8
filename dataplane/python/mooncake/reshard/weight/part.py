"""What one worker contributes to a placement."""

from __future__ import annotations

from dataclasses import dataclass

from .. import _checks as check
from ..contracts import (
    ParticipantId,
    PlacementSetId,
    ResourceId,
    RevisionId,
    TopologyId,
)
from .cover import check_fragments
from .types import ParallelRank, PlacementFragment, TensorDescriptor

__all__ = ["WeightPlacementPart"]


@dataclass(frozen=True)
class WeightPlacementPart:
    """The fragments of one worker, sorted, and the tensors they are of."""

    resource_id: ResourceId
    revision: RevisionId
    weight_generation: int
    placement_set_id: PlacementSetId
    topology_id: TopologyId
    participant_id: ParticipantId
    rank: ParallelRank
    tensors: tuple[TensorDescriptor, ...]
    fragments: tuple[PlacementFragment, ...]

    def __post_init__(self) -> None:
        names = ("resource_id", "revision", "placement_set_id", "topology_id", "participant_id")
        check.texts(self, names)
        check.u64(self.weight_generation, "weight_generation")
        if not isinstance(self.rank, ParallelRank):
            raise ValueError("placement part rank must be a ParallelRank")
        tensors = check.items(self.tensors, "WeightPlacementPart tensors", TensorDescriptor)
        fragments = check.items(self.fragments, "WeightPlacementPart fragments", PlacementFragment)
        if any(fragment.rank != self.rank for fragment in fragments):
            raise ValueError("placement part fragment rank differs from part rank")
        used = {fragment.tensor_id for fragment in fragments}
        for tensor_id in sorted({tensor.tensor_id for tensor in tensors} - used):
            raise ValueError(f"placement part contains an unreferenced tensor: {tensor_id}")
        tensors = tuple(sorted(tensors, key=lambda it: it.tensor_id))
        fragments = tuple(sorted(fragments, key=lambda it: it.fragment_id))
        object.__setattr__(self, "tensors", tensors)
        object.__setattr__(self, "fragments", fragments)
        check_fragments(tensors, fragments)
