"""Whether memory fits the placement it is bound to.

Invariant: in bindings that pass, no two fragments share a byte, unless the placement declares them
as aliases of each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias

from .. import _checks as check
from ..contracts import (
    RuntimeBindingFragment,
    canonical_strides_bytes,
    validate_resource_binding_identity,
)
from .cover import grouped
from .part import WeightPlacementPart
from .placement import WeightPlacementManifest
from .runtime import WeightRuntimeBindingManifest
from .types import PlacementFragment, TensorDescriptor

__all__ = ["validate_runtime_binding", "validate_runtime_bindings"]

Bound: TypeAlias = tuple[PlacementFragment, TensorDescriptor, RuntimeBindingFragment]


def validate_runtime_binding(
    placement: WeightPlacementManifest, binding: WeightRuntimeBindingManifest
) -> None:
    """Raise `ValueError` unless the binding has all fragments of its worker, each as placed."""
    bound = list(_bound(placement, binding))
    for fragment, tensor, memory in bound:
        _check_form(fragment, tensor, memory)
    _check_memory(binding.instance_id, bound)


def validate_runtime_bindings(placement: WeightPlacementManifest, bindings: object) -> None:
    """Raise `ValueError` unless there is one fitting binding for each worker with fragments."""
    found = check.items(bindings, "runtime bindings", WeightRuntimeBindingManifest)
    names = [binding.participant_id for binding in found]
    check.unique(names, "duplicate runtime binding participant")
    for binding in found:
        validate_runtime_binding(placement, binding)
    expected = {part.participant_id for part in placement.parts if part.fragments}
    for name in sorted(expected - set(names)):
        raise ValueError(f"missing runtime binding participant: {name}")
    for name in sorted(set(names) - expected):
        raise ValueError(f"unknown runtime binding participant: {name}")
    # Workers of one instance may live in one process.
    for instance, mine in grouped(found, lambda it: it.instance_id).items():
        _check_memory(instance, [row for binding in mine for row in _bound(placement, binding)])


def _bound(
    placement: WeightPlacementManifest, binding: WeightRuntimeBindingManifest
) -> Iterator[Bound]:
    """Yield each fragment of the binding's worker with its tensor and its memory."""
    if not isinstance(placement, WeightPlacementManifest):
        raise ValueError("placement must be a WeightPlacementManifest")
    if not isinstance(binding, WeightRuntimeBindingManifest):
        raise ValueError("binding must be a WeightRuntimeBindingManifest")
    validate_resource_binding_identity(placement, binding)
    if placement.revision != binding.revision:
        raise ValueError("placement and runtime binding revision differ")
    part = _part_of(placement, binding)
    placed = {fragment.fragment_id for fragment in part.fragments}
    memories = {it.placement_fragment_id: it for it in binding.fragments}
    for name in sorted(memories.keys() - placed):
        raise ValueError(f"unknown placement fragment in runtime binding: {name}")
    for name in sorted(placed - memories.keys()):
        raise ValueError(f"missing placement fragment in runtime binding: {name}")
    tensors = {tensor.tensor_id: tensor for tensor in part.tensors}
    for fragment in part.fragments:
        yield fragment, tensors[fragment.tensor_id], memories[fragment.fragment_id]


def _part_of(
    placement: WeightPlacementManifest, binding: WeightRuntimeBindingManifest
) -> WeightPlacementPart:
    for part in placement.parts:
        if part.participant_id == binding.participant_id:
            return part
    raise ValueError(f"unknown runtime binding participant: {binding.participant_id}")


def _check_form(
    fragment: PlacementFragment, tensor: TensorDescriptor, memory: RuntimeBindingFragment
) -> None:
    strides = canonical_strides_bytes(fragment.local_shape, tensor.itemsize)
    for what, found, expected in (
        ("byte size", memory.nbytes, fragment.nbytes),
        ("local_shape", memory.local_shape, fragment.local_shape),
        ("itemsize", memory.itemsize, tensor.itemsize),
        ("stride, which must be that of a contiguous array,", memory.strides_bytes, strides),
    ):
        if found != expected:
            raise ValueError(
                f"runtime binding {what} does not match placement: {fragment.fragment_id}: "
                f"expected {expected}, got {found}"
            )


def _check_memory(instance: str, bound: Iterable[Bound]) -> None:
    spaces = grouped(bound, lambda row: (instance, row[2].worker_id, row[2].device))
    for space, rows in spaces.items():
        memory = [(row[2].address, row[2].address + row[2].nbytes, row) for row in rows]
        for left, right in _overlapping(memory):
            if not _are_aliases(left, right):
                names = f"{left[2].fragment_id} and {right[2].fragment_id} in {space}"
                raise ValueError(f"runtime binding address ranges overlap: {names}")
        whole = [
            (it.storage_address, it.storage_address + it.storage_nbytes, it) for _, _, it in rows
        ]
        for left, right in _overlapping(whole):
            if (left.storage_address, left.storage_nbytes) != (
                right.storage_address,
                right.storage_nbytes,
            ):
                names = f"{left.fragment_id} and {right.fragment_id} in {space}"
                raise ValueError(f"runtime binding storage allocation ranges overlap: {names}")


def _overlapping(ranges: Sequence[tuple[int, int, Any]]) -> Iterator[tuple[Any, Any]]:
    """Yield the items of each pair of ranges (first, end, item) that share a byte."""
    live: list[tuple[int, int, Any]] = []
    for first, end, item in sorted(ranges, key=lambda it: it[0]):
        live = [it for it in live if it[1] > first]
        for _, _, other in live:
            yield other, item
        live.append((first, end, item))


def _are_aliases(left: Bound, right: Bound) -> bool:
    """Whether the placement says that both are the same memory, and they are."""
    (mine, my_tensor, my_memory), (its, its_tensor, its_memory) = left, right
    return (
        bool(mine.aliases)
        and mine.aliases == its.aliases
        and (mine.global_offset, mine.local_shape) == (its.global_offset, its.local_shape)
        and (my_memory.address, my_memory.nbytes) == (its_memory.address, its_memory.nbytes)
        and my_tensor.form == its_tensor.form
    )
