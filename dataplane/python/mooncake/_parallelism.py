"""How a model is split, and which object holds which part of a tensor.

A tensor-parallel rank's part is the object `<base>_tp_<rank>`; `<base>__parallelism_manifest` says
how many parts there are and along which dimension. The base is the key, with the expert or the
pipeline stage if the tensor belongs to one. Data-parallel ranks hold the same, so they share it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ._tensor import shard_key

MAX_SHARDS = 4096
KINDS = ("dp", "tp", "ep", "pp")
READ_MODES = ("as_stored", "shard", "full")


class ParallelAxis:
    """One way in which a model is split: `kind` is "dp", "tp", "ep" or "pp".

    A tp axis has `split_dim`, an ep axis `expert_id`, a pp axis may have `stage_id`.
    """

    def __init__(
        self,
        kind: str = "tp",
        rank: int = 0,
        size: int = 1,
        split_dim: int | None = None,
        expert_id: int | None = None,
        stage_id: int | None = None,
    ) -> None:
        self.kind = kind
        self.rank = rank
        self.size = size
        self.split_dim = split_dim
        self.expert_id = expert_id
        self.stage_id = stage_id

    def __setattr__(self, name: str, value: Any) -> None:
        wanted = str if name == "kind" else int
        missing = value is None and name in ("split_dim", "expert_id", "stage_id")
        if not missing and (not isinstance(value, wanted) or isinstance(value, bool)):
            raise TypeError(f"{name} must be {wanted.__name__}, not {type(value).__name__}")
        super().__setattr__(name, value)


class TensorParallelism:
    """The axes along which a tensor is split; their order does not matter."""

    def __init__(self, axes: Sequence[ParallelAxis] = ()) -> None:
        self.axes = axes

    @property
    def axes(self) -> list[ParallelAxis]:
        """The axes; what is assigned is copied, and must be ParallelAxis."""
        return self._axes

    @axes.setter
    def axes(self, axes: Sequence[ParallelAxis]) -> None:
        axes = list(axes)
        if not all(isinstance(axis, ParallelAxis) for axis in axes):
            raise TypeError("axes must be a list of ParallelAxis")
        self._axes = axes


class ReadTarget:
    """What a reader wants: "as_stored", "shard" (of `parallelism`) or "full"."""

    def __init__(
        self, mode: str = "as_stored", parallelism: TensorParallelism | None = None
    ) -> None:
        self.mode = mode
        self.parallelism = parallelism

    @property
    def mode(self) -> str:
        """One of the three; another raises RuntimeError."""
        return self._mode

    @mode.setter
    def mode(self, mode: str) -> None:
        if not isinstance(mode, str):
            raise TypeError(f"mode must be str, not {type(mode).__name__}")
        if mode.lower() not in READ_MODES:
            raise RuntimeError(f"Unsupported ReadTarget mode {mode!r}; use {', '.join(READ_MODES)}")
        self._mode = mode.lower()


@dataclass(frozen=True)
class Split:
    """Part `rank` of `size` parts along dimension `dim`."""

    rank: int
    size: int
    dim: int

    def __post_init__(self) -> None:
        if not 0 <= self.rank < self.size <= MAX_SHARDS:
            raise ValueError(f"rank {self.rank} of {self.size} parts does not exist")

    def part_of(self, tensor: Any) -> Any:
        """Return the part of a whole tensor; ValueError if its parts are not all of one size."""
        if not -tensor.dim() <= self.dim < tensor.dim():
            raise ValueError(f"a tensor of {tensor.dim()} dimensions has no dimension {self.dim}")
        if tensor.shape[self.dim] % self.size:
            raise ValueError(f"{tensor.shape[self.dim]} rows cannot be split into {self.size}")
        return tensor.tensor_split(self.size, self.dim)[self.rank].contiguous()


@dataclass(frozen=True)
class Place:
    """Where a part of a tensor lies: `base` of its objects, and its split if it has one."""

    base: str
    split: Split | None
    #: A rank of several axes gives the whole tensor, one of a tp axis alone its part.
    takes_whole: bool = False

    @property
    def key(self) -> str:
        """The key of the object."""
        return self.base if self.split is None else shard_key(self.base, self.split.rank)


def manifest_key(base: str) -> str:
    """Return the key of the object that says how a tensor was split."""
    return f"{base}__parallelism_manifest"


def place_of(key: str, parallelism: Any) -> Place:
    """Return where the part that `parallelism` describes lies; raises ValueError if it is wrong."""
    axes = {}
    for axis in getattr(parallelism, "axes", None) or []:
        kind = str(axis.kind).lower()
        if kind not in KINDS or kind in axes:
            raise ValueError(f"axis {kind!r} is repeated, or none of {', '.join(KINDS)}")
        if not 0 <= axis.rank < axis.size:
            raise ValueError(f"rank {axis.rank} of a {kind} axis of {axis.size} does not exist")
        if kind != "tp" and axis.split_dim is not None:
            raise ValueError(f"a {kind} axis splits no dimension; leave split_dim out")
        axes[kind] = axis
    base = key
    if "ep" in axes:
        if axes["ep"].expert_id is None:
            raise ValueError("an ep axis needs expert_id")
        base += f"_ep_{axes['ep'].expert_id}"
    if "pp" in axes:
        stage = axes["pp"].stage_id
        base += f"_pp_{axes['pp'].rank if stage is None else stage}"
    tp = axes.get("tp")
    split = Split(tp.rank, tp.size, tp.split_dim or 0) if tp and tp.size > 1 else None
    return Place(base, split, takes_whole=len(axes) > 1)
