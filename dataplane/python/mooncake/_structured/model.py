"""What callers of structured objects pass around: policies, references, selections, results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

DEFAULT_CHUNK_BYTES = 64 << 20
STORE_MISS = -704
FIELD_SPECS = "__mooncake_structured_fields__"

Section = Literal["batch", "non_tensor_batch"]
PayloadType = Literal["dataproto", "dict"]


class BundleStore(Protocol):
    """The least that a store must have. Faster calls are used where the store has them."""

    def put(self, key: str, value: Any, config: Any = None) -> int:
        """Store bytes; 0 or a negative code."""

    def get(self, key: str) -> bytes:
        """Return the bytes of a key."""

    def remove(self, key: str, force: bool = False) -> int:
        """Remove a key; 0 or a negative code."""


@dataclass(frozen=True)
class BundleTransferPolicy:
    """How payloads are written.

    `max_inflight_put` (1 or more) is the number of threads that put chunks. `put_mode` is "batch"
    (one after another), "parallel", or "auto": parallel for many bytes in many chunks. `copy_mode`
    is "copy" (`put` only), "zero_copy" (the source itself is registered, or an error), or "auto".
    """

    max_inflight_put: int = 1
    put_mode: Literal["auto", "batch", "parallel"] = "auto"
    copy_mode: Literal["auto", "zero_copy", "copy"] = "auto"

    def checked(self, max_inflight_put: int | None = None) -> BundleTransferPolicy:
        """Return the policy with this limit; ValueError names a field that has no meaning."""
        policy = self
        if max_inflight_put is not None:
            policy = replace(self, max_inflight_put=max_inflight_put)
        if policy.max_inflight_put < 1:
            raise ValueError(f"max_inflight_put is {policy.max_inflight_put}; use 1 or more")
        if policy.put_mode not in ("auto", "batch", "parallel"):
            raise ValueError(f"put_mode {policy.put_mode!r} is none of auto, batch, parallel")
        if policy.copy_mode not in ("auto", "zero_copy", "copy"):
            raise ValueError(f"copy_mode {policy.copy_mode!r} is none of auto, zero_copy, copy")
        return policy


@dataclass(frozen=True)
class FieldSchema:
    """How one field is encoded: `codec` names it, "auto" looks at the rows.

    `metadata` may have "section" (batch, non_tensor_batch, meta_info), "dtype" and, for
    ragged_tensor_dict, "keys".
    """

    codec: str
    nullable: bool = True
    metadata: dict[str, Any] = field(default_factory=dict)


@dataclass
class RemoteBundleRef:
    """A stored bundle. An empty `manifest` is read from the store when it is needed."""

    manifest_key: str
    manifest: dict[str, Any]


@dataclass(frozen=True, init=False)
class StructuredObjectPayload:
    """A structured object to store: metadata that JSON can hold, and members by name."""

    metadata: Mapping[str, Any]
    buffers: Mapping[str, Any]

    def __init__(
        self,
        metadata: Mapping[str, Any] | None = None,
        buffers: Mapping[str, Any] | None = None,
    ) -> None:
        object.__setattr__(self, "metadata", {} if metadata is None else metadata)
        object.__setattr__(self, "buffers", {} if buffers is None else buffers)


@dataclass
class StructuredObjectResult:
    """A structured object that was read."""

    metadata: dict[str, Any]
    objects: dict[str, Any]


@dataclass(frozen=True)
class StructuredFieldLocation:
    """Where a field of a batch is: its stage, its member there, and its section."""

    stage: str
    member: str
    section: Section


@dataclass
class MooncakeDataProtoRef:
    """A stored batch: one bundle per stage, and the fields in them.

    All keys of one batch share a storage group, so that they are evicted together.
    """

    batch_size: int
    stage_refs: dict[str, RemoteBundleRef]
    field_index: dict[str, StructuredFieldLocation]
    meta_info: dict[str, Any]
    namespace: str = "default"
    partition: str = "default"
    global_indexes: list[int] | None = None
    encoded_non_tensor: dict[str, Any] = field(default_factory=dict)
    _storage_group_id: str | None = field(default=None, repr=False)


@dataclass(frozen=True)
class StructuredMemberSlice:
    """Rows `start` to `end` (not included) of a member, every `step`th."""

    axis: int
    start: int
    end: int
    step: int = 1


@dataclass(frozen=True)
class StructuredObjectReadSpec:
    """What to read of a bundle: all members, or those selected, whole or some rows of them."""

    ref: RemoteBundleRef | Mapping[str, Any]
    member_names: tuple[str, ...] | None = None
    member_slices: tuple[tuple[str, StructuredMemberSlice], ...] = ()

    def select_members(self, names: Sequence[str] | None) -> StructuredObjectReadSpec:
        """Return a specification of these members only; None selects all."""
        return replace(self, member_names=None if names is None else tuple(names))

    def slice_member(
        self, name: str, axis: int, start: int, end: int, step: int = 1
    ) -> StructuredObjectReadSpec:
        """Return a specification that reads only these rows of one member."""
        others = tuple(entry for entry in self.member_slices if entry[0] != name)
        chosen = (name, StructuredMemberSlice(axis, start, end, step))
        return replace(self, member_slices=(*others, chosen))

    def member_slice(self, name: str) -> StructuredMemberSlice | None:
        """Return the slice of a member, None if it is read whole."""
        return dict(self.member_slices).get(name)
