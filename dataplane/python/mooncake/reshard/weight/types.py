"""Tensors, the axes along which ranks divide them, and fragments: parts of tensors on ranks."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import prod
from typing import Literal, TypeAlias

from .. import _checks as check
from .._wire import identity
from ..contracts import (
    PlacementFragmentId,
    RuntimeBindingFragment,
    TensorId,
    canonical_strides_bytes,
)

__all__ = [
    "AXIS_KINDS",
    "OwnershipAxis",
    "ParallelAxis",
    "ParallelAxisKind",
    "ParallelRank",
    "PlacementFragment",
    "ReplicatedAxis",
    "RuntimeBindingFragment",
    "SplitAxis",
    "SplitAxisKind",
    "TensorDescriptor",
    "canonical_strides_bytes",
    "check_aliases",
    "check_geometry",
]

ParallelAxisKind: TypeAlias = Literal["dp", "pp", "ep", "tp"]
SplitAxisKind: TypeAlias = Literal["ep", "tp"]

AXIS_KINDS: tuple[ParallelAxisKind, ...] = ("dp", "pp", "ep", "tp")
SPLIT_KINDS: tuple[SplitAxisKind, ...] = ("ep", "tp")


@dataclass(frozen=True)
class ParallelRank:
    """The coordinates of one worker; they say who holds a fragment, not how it was cut."""

    dp: int = 0
    tp: int = 0
    pp: int = 0
    ep: int = 0

    def __post_init__(self) -> None:
        for kind in AXIS_KINDS:
            check.whole(getattr(self, kind), f"parallel rank {kind}")

    def along(self, kinds: tuple[str, ...]) -> tuple[tuple[str, int], ...]:
        """Return the coordinates along some axes."""
        return tuple((kind, getattr(self, kind)) for kind in kinds)


@dataclass(frozen=True)
class SplitAxis:
    """Each rank of the axis holds a part of dimension `dim`; together they hold the tensor."""

    kind: SplitAxisKind
    dim: int

    def __post_init__(self) -> None:
        _check_kind(self.kind)
        if self.kind not in SPLIT_KINDS:
            raise ValueError(f"{self.kind} cannot use split semantics")
        check.whole(self.dim, "split axis dim")
        if self.kind == "ep" and self.dim != 0:
            raise ValueError("EP must split the leading dimension, that of the experts")


@dataclass(frozen=True)
class ReplicatedAxis:
    """Each rank of the axis holds all of what the other axes leave."""

    kind: ParallelAxisKind

    def __post_init__(self) -> None:
        _check_kind(self.kind)


@dataclass(frozen=True)
class OwnershipAxis:
    """Only the ranks that have fragments hold the tensor; the others do not need it."""

    kind: ParallelAxisKind

    def __post_init__(self) -> None:
        _check_kind(self.kind)


ParallelAxis: TypeAlias = SplitAxis | ReplicatedAxis | OwnershipAxis


def _check_kind(kind: object) -> None:
    if check.text(kind, "parallel axis kind") not in AXIS_KINDS:
        raise ValueError(f"unsupported parallel axis kind: {kind}")


@dataclass(frozen=True)
class TensorDescriptor:
    """A tensor as a whole; `itemsize` in bytes.

    `shard_dims` are the dimensions that the split axes name, sorted. Tensors with different
    `layout_fingerprint` are not interchangeable even if all else is equal.
    """

    tensor_id: TensorId
    global_shape: tuple[int, ...]
    dtype: str
    itemsize: int
    shard_dims: tuple[int, ...]
    layout_fingerprint: str
    parallel_axes: tuple[ParallelAxis, ...]
    layer_id: int | None = None
    expert_id: int | None = None

    def __post_init__(self) -> None:
        check.texts(self, ("tensor_id", "dtype", "layout_fingerprint"))
        check.whole(self.itemsize, "itemsize", 1)
        check.optional_whole(self.layer_id, "layer_id")
        check.optional_whole(self.expert_id, "expert_id")
        shape = check.wholes(self.global_shape, "global_shape", 1)
        if not shape:
            raise ValueError("global_shape must not be empty")
        object.__setattr__(self, "global_shape", shape)
        object.__setattr__(self, "shard_dims", check.wholes(self.shard_dims, "shard_dims"))
        object.__setattr__(self, "parallel_axes", self._sorted_axes())
        self._check_split()

    def _sorted_axes(self) -> tuple[ParallelAxis, ...]:
        axes = tuple(check.sequence(self.parallel_axes, "parallel_axes"))
        if not all(isinstance(axis, ParallelAxis) for axis in axes):
            raise ValueError(
                "parallel_axes must contain explicit axis values: split, replicated or ownership"
            )
        check.unique((axis.kind for axis in axes), "parallel_axes must not hold duplicate kinds")
        return tuple(sorted(axes, key=lambda axis: AXIS_KINDS.index(axis.kind)))

    def _check_split(self) -> None:
        split = [axis.dim for axis in self.parallel_axes if isinstance(axis, SplitAxis)]
        check.unique(split, "split axes must not share a dimension")
        check.unique(self.shard_dims, "shard_dims must not contain duplicates")
        if any(dim >= len(self.global_shape) for dim in (*split, *self.shard_dims)):
            raise ValueError("shard_dims or a split axis names an out-of-range dimension")
        if tuple(sorted(split)) != self.shard_dims:
            raise ValueError("shard_dims must be the sorted dimensions of the split axes")
        if self.expert_id is not None and "ep" in self.kinds(SplitAxis):
            raise ValueError("an individually allocated expert requires explicit EP ownership")

    def kinds(self, meaning: type) -> tuple[str, ...]:
        """Return the kinds of the axes that are of one meaning."""
        return tuple(axis.kind for axis in self.parallel_axes if isinstance(axis, meaning))

    @property
    def form(self) -> tuple[object, ...]:
        """All but the name: tensors that share memory have the same."""
        names = [name for name in self.__dataclass_fields__ if name != "tensor_id"]
        return tuple(getattr(self, name) for name in names)


@dataclass(frozen=True)
class PlacementFragment:
    """A box of a tensor that belongs on one rank; `nbytes` bytes, no address.

    `aliases` names all tensors that share the memory, this one among them. Without an id the
    fragment gets the digest of its content.
    """

    tensor_id: TensorId
    global_offset: tuple[int, ...]
    local_shape: tuple[int, ...]
    nbytes: int
    rank: ParallelRank
    pipeline_stage_id: int | None = None
    aliases: tuple[TensorId, ...] = ()
    placement_fragment_id: PlacementFragmentId | None = None

    def __post_init__(self) -> None:
        check.text(self.tensor_id, "tensor_id")
        offset = check.wholes(self.global_offset, "global_offset")
        object.__setattr__(self, "global_offset", offset)
        object.__setattr__(self, "local_shape", check.wholes(self.local_shape, "local_shape", 1))
        check.u64(self.nbytes, "nbytes", 1)
        if not isinstance(self.rank, ParallelRank):
            raise ValueError("rank must be a ParallelRank")
        check.optional_whole(self.pipeline_stage_id, "pipeline_stage_id")
        object.__setattr__(self, "aliases", check_aliases(self.aliases, self.tensor_id))
        if self.placement_fragment_id is None:
            object.__setattr__(self, "placement_fragment_id", self._identity())
        check.text(self.placement_fragment_id, "placement_fragment_id")

    def _identity(self) -> str:
        content = {"schema": "weight-placement-fragment", **asdict(self)}
        del content["placement_fragment_id"]
        if self.pipeline_stage_id is None:
            del content["pipeline_stage_id"]
        return identity(content)

    @property
    def fragment_id(self) -> PlacementFragmentId:
        """The name that fragments of all kinds have."""
        return self.placement_fragment_id  # type: ignore[return-value]


def check_aliases(value: object, tensor_id: TensorId) -> tuple[TensorId, ...]:
    """Return the sorted names of tensors that share memory: none, or two and `tensor_id` in it."""
    aliases = tuple(check.sequence(value, "aliases"))
    if any(type(alias) is not str or not alias for alias in aliases):
        raise ValueError("aliases must contain non-empty strings")
    check.unique(aliases, "aliases must not contain duplicates")
    if aliases and (len(aliases) < 2 or tensor_id not in aliases):
        raise ValueError("an alias group holds at least two tensors, the fragment's own among them")
    return tuple(sorted(aliases))


def check_geometry(
    tensor: TensorDescriptor,
    fragment_id: str,
    offset: tuple[int, ...],
    shape: tuple[int, ...],
    nbytes: int,
) -> None:
    """Raise `ValueError` unless the box lies in the tensor and has its bytes."""
    if not len(offset) == len(shape) == len(tensor.global_shape):
        raise ValueError(f"fragment rank mismatch: {fragment_id}")
    if any(at + size > room for at, size, room in zip(offset, shape, tensor.global_shape)):
        raise ValueError(f"fragment is out of bounds: {fragment_id}")
    expected = prod(shape) * tensor.itemsize
    if nbytes != expected:
        raise ValueError(
            f"fragment byte size mismatch: {fragment_id}: expected {expected}, got {nbytes}"
        )
