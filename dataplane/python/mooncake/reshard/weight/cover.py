"""Whether fragments fit their tensors, and whether together they are a complete placement.

Invariant: in a placement that passes, each owner and each replica of a tensor holds it whole and
once, and each rank of a split axis holds an interval of that axis's dimension.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import product
from typing import TypeAlias, TypeVar

from ..contracts import TensorId
from ..geometry import boxes_exactly_cover, boxes_overlap
from .topology import ParallelTopology
from .types import (
    AXIS_KINDS,
    OwnershipAxis,
    PlacementFragment,
    ReplicatedAxis,
    SplitAxis,
    TensorDescriptor,
    check_geometry,
)

Coordinates: TypeAlias = tuple[tuple[str, int], ...]
Fragments: TypeAlias = Sequence[PlacementFragment]

_Item = TypeVar("_Item")
_Key = TypeVar("_Key", bound=Hashable)


def grouped(items: Iterable[_Item], key: Callable[[_Item], _Key]) -> dict[_Key, list[_Item]]:
    """Return the items by key, keys and items in the order in which they come."""
    groups: dict[_Key, list[_Item]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def by_tensor_id(tensors: Iterable[TensorDescriptor]) -> dict[TensorId, TensorDescriptor]:
    """Return the tensors by name; raise `ValueError` if a name comes twice."""
    found: dict[TensorId, TensorDescriptor] = {}
    for tensor in tensors:
        if found.setdefault(tensor.tensor_id, tensor) is not tensor:
            raise ValueError(f"duplicate tensor_id: {tensor.tensor_id}")
    return found


def check_fragments(tensors: Sequence[TensorDescriptor], fragments: Fragments) -> None:
    """Raise `ValueError` unless each fragment fits its tensor and no rank holds a part twice."""
    known = by_tensor_id(tensors)
    seen: set[Hashable] = set()
    for fragment in fragments:
        if fragment.fragment_id in seen:
            raise ValueError(f"duplicate fragment_id: {fragment.fragment_id}")
        seen.add(fragment.fragment_id)
        tensor = known.get(fragment.tensor_id)
        if tensor is None:
            raise ValueError(f"unknown tensor_id: {fragment.tensor_id}")
        box = (fragment.global_offset, fragment.local_shape)
        check_geometry(tensor, fragment.fragment_id, *box, fragment.nbytes)
    for (tensor_id, rank), held in grouped(fragments, lambda it: (it.tensor_id, it.rank)).items():
        boxes = [(it.global_offset, it.local_shape) for it in held]
        check_once(tensor_id, rank, boxes)


def check_once(tensor_id: TensorId, rank: object, boxes: list) -> None:
    """Raise `ValueError` if one rank holds an element of a tensor twice."""
    if len(set(boxes)) != len(boxes):
        raise ValueError(f"duplicate logical fragment of {tensor_id} on {rank}")
    if boxes_overlap(boxes):
        raise ValueError(f"logical fragment boxes overlap: {tensor_id} on {rank}")


def check_alias_groups(tensors: Sequence[TensorDescriptor], fragments: Fragments) -> None:
    """Raise `ValueError` unless all members of an alias group exist and declare the same group.

    Only a whole placement can be checked: a part may name tensors of other workers.
    """
    groups = grouped(fragments, lambda it: it.tensor_id)
    known = {tensor.tensor_id for tensor in tensors}
    for aliases in {fragment.aliases for fragment in fragments if fragment.aliases}:
        for tensor_id in aliases:
            if tensor_id not in known:
                raise ValueError(f"alias group references unknown tensor: {tensor_id}")
            if {fragment.aliases for fragment in groups.get(tensor_id, ())} != {aliases}:
                raise ValueError(
                    f"alias group is not declared consistently for tensor: {tensor_id}"
                )


def check_complete(
    tensors: Sequence[TensorDescriptor], fragments: Fragments, topology: ParallelTopology
) -> None:
    """Raise `ValueError` unless the placement holds every tensor as its axes say."""
    if not tensors or not fragments:
        raise ValueError("a weight placement must contain tensors and fragments")
    groups = grouped(fragments, lambda it: it.tensor_id)
    for tensor in tensors:
        held = groups.get(tensor.tensor_id, [])
        if not held:
            raise _not_covered(tensor)
        _check_undeclared(tensor, held, topology)
        owners = tensor.kinds(OwnershipAxis)
        for owner, mine in sorted(grouped(held, lambda it: it.rank.along(owners)).items()):
            _check_owner(tensor, owner, mine, topology)


def _not_covered(tensor: TensorDescriptor, why: str = "") -> ValueError:
    return ValueError(
        f"global placement tensor is not fully covered: {tensor.tensor_id}{why and ': '}{why}"
    )


def _ranks(
    topology: ParallelTopology, fixed: Coordinates, kinds: tuple[str, ...]
) -> set[Coordinates]:
    """Return the coordinates along `kinds` of the workers that have the `fixed` ones."""
    workers = (worker.rank for worker in topology.participants)
    matching = (it for it in workers if all(getattr(it, kind) == at for kind, at in fixed))
    return {rank.along(kinds) for rank in matching}


def _check_owner(
    tensor: TensorDescriptor, owner: Coordinates, held: Fragments, topology: ParallelTopology
) -> None:
    kinds = tensor.kinds(ReplicatedAxis)
    replicas = grouped(held, lambda it: it.rank.along(kinds))
    if set(replicas) != _ranks(topology, owner, kinds):
        raise _not_covered(tensor, "missing or unexpected replicated-axis participant")
    for replica, mine in sorted(replicas.items()):
        boxes = [(it.global_offset, it.local_shape) for it in mine]
        if not boxes_exactly_cover((0,) * len(tensor.global_shape), tensor.global_shape, boxes):
            raise _not_covered(tensor)
        _check_split_ranks(tensor, mine, topology, owner + replica)
        _check_split_intervals(tensor, mine)


def _check_split_ranks(
    tensor: TensorDescriptor, held: Fragments, topology: ParallelTopology, fixed: Coordinates
) -> None:
    kinds = tensor.kinds(SplitAxis)
    expected = _ranks(topology, fixed, kinds)
    full = all(
        {dict(rank)[kind] for rank in expected} == set(range(topology.size(kind))) for kind in kinds
    )
    if not full or {it.rank.along(kinds) for it in held} != expected:
        raise _not_covered(tensor, "missing or unexpected split-axis participant")


def _check_split_intervals(tensor: TensorDescriptor, held: Fragments) -> None:
    kinds = tensor.kinds(SplitAxis)
    seen = {it.rank.along(kinds) for it in held}
    per_kind = [{(kind, getattr(it.rank, kind)) for it in held} for kind in kinds]
    if seen != set(product(*per_kind)):
        raise ValueError(
            "non-Cartesian split-axis ranks do not show which rank holds which part: "
            f"{tensor.tensor_id}"
        )
    for axis in tensor.parallel_axes:
        if isinstance(axis, SplitAxis):
            _check_intervals(tensor, axis, held)


def _check_intervals(tensor: TensorDescriptor, axis: SplitAxis, held: Fragments) -> None:
    """Each rank's intervals along the dimension are its own, and all of them fill it."""
    owned = []
    for mine in grouped(held, lambda it: getattr(it.rank, axis.kind)).values():
        places = [(it.global_offset[axis.dim], it.local_shape[axis.dim]) for it in mine]
        owned += _merged([(low, low + size) for low, size in places])
    boxes = [((low,), (high - low,)) for low, high in owned]
    if not boxes_exactly_cover((0,), (tensor.global_shape[axis.dim],), boxes):
        raise ValueError(
            "split-axis rank geometry conflicts with declared dimension: "
            f"{tensor.tensor_id}: {axis.kind} -> dim {axis.dim}"
        )


def _merged(intervals: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the union of intervals as intervals that do not touch."""
    union: list[tuple[int, int]] = []
    for low, high in sorted(intervals):
        if union and low <= union[-1][1]:
            union[-1] = (union[-1][0], max(union[-1][1], high))
        else:
            union.append((low, high))
    return union


def _check_undeclared(
    tensor: TensorDescriptor, held: Fragments, topology: ParallelTopology
) -> None:
    """An axis that the tensor does not declare must not decide who holds it.

    TP and EP may run along with a declared axis, as when both use the same workers.
    """
    declared = tuple(axis.kind for axis in tensor.parallel_axes)
    varying = tuple(kind for kind in declared if len({getattr(it.rank, kind) for it in held}) > 1)
    for kind in AXIS_KINDS:
        if kind in declared or topology.size(kind) == 1:
            continue
        if kind in ("dp", "pp") or len({getattr(it.rank, kind) for it in held}) == 1:
            raise ValueError(
                "global placement tensor needs an axis for the active undeclared "
                f"{kind} axis: {tensor.tensor_id}"
            )
        followed = grouped(held, lambda it: it.rank.along(varying)).values()
        if any(len({getattr(it.rank, kind) for it in mine}) > 1 for mine in followed):
            raise ValueError(
                "global placement tensor varies independently along undeclared "
                f"{kind} axis: {tensor.tensor_id}"
            )
