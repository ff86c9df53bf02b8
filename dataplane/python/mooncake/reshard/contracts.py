"""What every resource shares: identities, the manifests' common parts, pieces of memory."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from enum import Enum
from typing import NewType, Protocol

from . import _checks as check

__all__ = [
    "LeaseId",
    "ParticipantId",
    "PlacementFragmentId",
    "PlacementId",
    "PlacementManifest",
    "PlacementSetId",
    "ResourceId",
    "ResourceKind",
    "ResourceManifest",
    "RevisionId",
    "RuntimeBindingManifest",
    "RuntimeBindingFragment",
    "RuntimeFragmentId",
    "RuntimeInstanceId",
    "StoredFragmentId",
    "TensorId",
    "TopologyId",
    "StoredResourceManifest",
    "canonical_strides_bytes",
    "validate_resource_binding_identity",
]

# Plain strings on the wire; a type checker keeps them apart.
ResourceId = NewType("ResourceId", str)
PlacementId = NewType("PlacementId", str)
PlacementSetId = NewType("PlacementSetId", str)
ParticipantId = NewType("ParticipantId", str)
PlacementFragmentId = NewType("PlacementFragmentId", str)
RuntimeFragmentId = NewType("RuntimeFragmentId", str)
RuntimeInstanceId = NewType("RuntimeInstanceId", str)
StoredFragmentId = NewType("StoredFragmentId", str)
TensorId = NewType("TensorId", str)
TopologyId = NewType("TopologyId", str)
RevisionId = NewType("RevisionId", str)
LeaseId = NewType("LeaseId", str)


class ResourceKind(str, Enum):
    """What a manifest describes."""

    MODEL_WEIGHT = "model_weight"
    KV_CACHE = "kv_cache"


class ResourceManifest(Protocol):
    """A resource with a name and a kind."""

    @property
    def resource_id(self) -> ResourceId: ...
    @property
    def resource_kind(self) -> ResourceKind: ...


class PlacementManifest(ResourceManifest, Protocol):
    """Where the parts of a resource belong, without addresses."""

    @property
    def placement_id(self) -> PlacementId: ...
    @property
    def digest(self) -> str: ...


class RuntimeBindingManifest(ResourceManifest, Protocol):
    """Where the parts of a placement lie in memory now, and until when that holds."""

    @property
    def placement_id(self) -> PlacementId: ...
    @property
    def placement_digest(self) -> str: ...
    @property
    def instance_id(self) -> RuntimeInstanceId: ...
    @property
    def generation(self) -> int: ...
    @property
    def lease_id(self) -> LeaseId: ...


class StoredResourceManifest(ResourceManifest, Protocol):
    """Where the parts of a resource lie in the store."""

    namespace: str
    group_id: str
    manifest_key: str
    created_at: str


def validate_resource_binding_identity(
    placement: PlacementManifest, binding: RuntimeBindingManifest
) -> None:
    """Raise `ValueError` unless the binding is one of exactly this placement."""
    for name, mine, its in (
        ("resource_kind", placement.resource_kind, binding.resource_kind),
        ("resource_id", placement.resource_id, binding.resource_id),
        ("placement_id", placement.placement_id, binding.placement_id),
        ("digest", placement.digest, binding.placement_digest),
    ):
        if mine != its:
            raise ValueError(f"placement and runtime binding {name} differ")


def canonical_strides_bytes(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """Return the strides in bytes of a contiguous row-major array."""
    strides = [itemsize]
    for extent in reversed(shape[1:]):
        strides.append(strides[-1] * extent)
    return tuple(reversed(strides[: len(shape)]))


@dataclass(frozen=True)
class RuntimeBindingFragment:
    """A piece of memory that holds one fragment of a placement; sizes and strides in bytes.

    `owner` keeps the memory alive in this process. It is no part of the value: it is not compared,
    and a copy for another process has none.
    """

    placement_fragment_id: PlacementFragmentId
    fragment_id: RuntimeFragmentId
    address: int
    nbytes: int
    worker_id: str
    endpoint: str
    device: str
    itemsize: int
    local_shape: tuple[int, ...]
    strides_bytes: tuple[int, ...]
    storage_address: int
    storage_nbytes: int
    storage_offset_bytes: int
    owner: object | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        names = ("placement_fragment_id", "fragment_id", "worker_id", "endpoint", "device")
        check.texts(self, names)
        _check_range(self.address, self.nbytes)
        check.whole(self.itemsize, "runtime itemsize", 1)
        shape = check.wholes(self.local_shape, "runtime local_shape", 1)
        object.__setattr__(self, "local_shape", shape)
        object.__setattr__(self, "strides_bytes", self._strides(shape))
        _check_range(self.storage_address, self.storage_nbytes)
        offset = check.u64(self.storage_offset_bytes, "storage_offset_bytes")
        if self.address != self.storage_address + offset:
            raise ValueError("runtime address must equal storage_address plus storage_offset_bytes")
        if offset + self.nbytes > self.storage_nbytes:
            raise ValueError("runtime view exceeds storage allocation bounds")

    def _strides(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        strides = check.wholes(self.strides_bytes, "runtime strides_bytes")
        if len(strides) != len(shape):
            raise ValueError("runtime stride rank differs from local_shape")
        if any(size > 1 and stride == 0 for size, stride in zip(shape, strides)):
            raise ValueError("runtime stride must be positive for non-singleton dimensions")
        # The stride of a dimension of one element says nothing, so it has one value for all.
        contiguous = canonical_strides_bytes(shape, self.itemsize)
        rows = zip(shape, strides, contiguous)
        return tuple(wanted if size == 1 else given for size, given, wanted in rows)

    def __reduce__(self) -> tuple[object, ...]:
        names = [it.name for it in fields(self) if it.name != "owner"]
        return type(self), tuple(getattr(self, name) for name in names)


def _check_range(address: int, size: int) -> None:
    last = check.u64(address, "address", 1) + check.u64(size, "nbytes", 1)
    if last > check.U64_MAX:
        raise ValueError("address range must fit in an unsigned 64-bit integer")
