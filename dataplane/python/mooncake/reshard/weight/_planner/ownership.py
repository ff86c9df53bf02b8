"""Which ranks hold a tensor whole, and so may be its source."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from ...contracts import TensorId
from ...geometry import boxes_exactly_cover
from ..cover import Coordinates, grouped
from ..types import OwnershipAxis, PlacementFragment, TensorDescriptor
from .geometry import box_of

Tensors: TypeAlias = Mapping[TensorId, TensorDescriptor]
Fragments: TypeAlias = Sequence[PlacementFragment]


def parallel_tensor_owner(tensor: TensorDescriptor, fragment: PlacementFragment) -> Coordinates:
    """Return the coordinates of a fragment along the axes that own its tensor."""
    return fragment.rank.along(tensor.kinds(OwnershipAxis))


def has_dp_ownership(tensor: TensorDescriptor) -> bool:
    """Return whether DP ranks own the tensor, rather than hold replicas of it."""
    return "dp" in tensor.kinds(OwnershipAxis)


def owners(tensor: TensorDescriptor, held: Iterable[PlacementFragment]) -> dict[Coordinates, bool]:
    """Return for each owner of fragments whether these are the whole tensor."""
    groups = grouped(held, lambda it: parallel_tensor_owner(tensor, it))
    origin = (0,) * len(tensor.global_shape)
    return {
        # Ranks along other axes hold the same box once more.
        owner: boxes_exactly_cover(origin, tensor.global_shape, [*{box_of(it) for it in mine}])
        for owner, mine in groups.items()
    }


def complete_parallel_source_replicas(
    source_tensors: Tensors, source_fragments: Fragments
) -> dict[int, dict[TensorId, Coordinates]]:
    """Return the DP ranks that hold all replicated tensors, with an owner of each tensor."""
    replicated = [it for it in source_tensors.values() if not has_dp_ownership(it)]
    if not replicated:
        return {}
    held = grouped(source_fragments, lambda it: (it.rank.dp, it.tensor_id))
    replicas = {}
    for dp in sorted({dp for dp, _ in held}):
        found = {
            tensor.tensor_id: owners(tensor, held.get((dp, tensor.tensor_id), []))
            for tensor in replicated
        }
        if all(whole and all(whole.values()) for whole in found.values()):
            replicas[dp] = {tensor_id: min(whole) for tensor_id, whole in found.items()}
    if not replicas:
        raise ValueError("no DP rank of the source holds all tensors: they are not fully covered")
    return replicas


def complete_dp_owned_source_owners(
    source_tensors: Tensors, source_fragments: Fragments
) -> dict[TensorId, Coordinates]:
    """Return the one owner of each tensor that DP ranks own."""
    held = grouped(source_fragments, lambda it: it.tensor_id)
    found = {}
    for tensor in filter(has_dp_ownership, source_tensors.values()):
        whole = owners(tensor, held.get(tensor.tensor_id, []))
        if not any(whole.values()):
            raise ValueError(f"no DP rank of the source owns all of tensor: {tensor.tensor_id}")
        if len(whole) > 1:
            raise ValueError(
                f"DP-owned source tensor has ambiguous declared owners: {tensor.tensor_id}"
            )
        [found[tensor.tensor_id]] = whole
    return found


class SourceChoice:
    """Says which source ranks serve which target ranks.

    DP ranks of the target take turns with the complete DP ranks of the source.
    """

    def __init__(self, tensors: Tensors, fragments: Fragments) -> None:
        self._tensors = tensors
        self._replicas = complete_parallel_source_replicas(tensors, fragments)
        self._owned = complete_dp_owned_source_owners(tensors, fragments)
        self._turns = sorted(self._replicas)

    def serves(self, source: PlacementFragment, target: PlacementFragment) -> bool:
        """Return whether the source fragment is the one to copy from."""
        owner = parallel_tensor_owner(self._tensors[source.tensor_id], source)
        if source.tensor_id in self._owned:
            return owner == self._owned[source.tensor_id]
        dp = self._turns[target.rank.dp % len(self._turns)]
        return source.rank.dp == dp and owner == self._replicas[dp][source.tensor_id]
