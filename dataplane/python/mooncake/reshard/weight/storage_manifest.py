"""A model's weights as objects of the store: which object holds which part of which tensor.

Invariant: in a manifest that passes, the fragments hold each tensor whole and once, and no two of
them share a byte of an object.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from typing import Any

from .. import _checks as check
from .._wire import exact, load
from ..contracts import ResourceId, ResourceKind, RevisionId, StoredFragmentId, TensorId
from ..geometry import boxes_exactly_cover
from .cover import by_tensor_id, grouped
from .serde import tensor_form, tensor_of
from .types import TensorDescriptor, check_aliases, check_geometry

_TEXTS = ("namespace", "resource_id", "revision", "group_id", "manifest_key")


@dataclass(frozen=True)
class StoredManifestIdentity:
    """Where a manifest lies in the store, and the SHA-256 of its content."""

    namespace: str
    resource_id: ResourceId
    revision: RevisionId
    weight_generation: int
    group_id: str
    manifest_key: str
    content_sha256: str

    def __post_init__(self) -> None:
        check.texts(self, _TEXTS)
        check.u64(self.weight_generation, "weight_generation")
        check.sha256(self.content_sha256, "content_sha256")


@dataclass(frozen=True)
class StoredFragment:
    """A box of a tensor: `nbytes` bytes at `object_offset` of an object."""

    fragment_id: StoredFragmentId
    tensor_id: TensorId
    global_offset: tuple[int, ...]
    local_shape: tuple[int, ...]
    object_key: str
    object_offset: int
    nbytes: int
    aliases: tuple[TensorId, ...] = ()

    def __post_init__(self) -> None:
        check.texts(self, ("fragment_id", "tensor_id", "object_key"))
        offset = check.wholes(self.global_offset, "global_offset")
        object.__setattr__(self, "global_offset", offset)
        object.__setattr__(self, "local_shape", check.wholes(self.local_shape, "local_shape", 1))
        check.whole(self.object_offset, "object_offset")
        check.whole(self.nbytes, "nbytes", 1)
        object.__setattr__(self, "aliases", check_aliases(self.aliases, self.tensor_id))


@dataclass(frozen=True)
class WeightManifest:
    """One generation of a model's weights in the store.

    Keys belong to the group: the manifest is `<group_id>/manifest`, objects are
    `<group_id>/payload/...`.
    """

    namespace: str
    resource_id: ResourceId
    revision: RevisionId
    weight_generation: int
    group_id: str
    manifest_key: str
    tensors: tuple[TensorDescriptor, ...]
    fragments: tuple[StoredFragment, ...]
    created_at: str

    def __post_init__(self) -> None:
        check.texts(self, (*_TEXTS, "created_at"))
        check.u64(self.weight_generation, "weight_generation")
        tensors = check.items(self.tensors, "WeightManifest tensors", TensorDescriptor)
        fragments = check.items(self.fragments, "WeightManifest fragments", StoredFragment)
        object.__setattr__(self, "tensors", tensors)
        object.__setattr__(self, "fragments", fragments)
        self._check_keys()
        self._check_fragments()
        self._check_aliases()
        self._check_cover()
        self._check_objects()

    def _check_keys(self) -> None:
        if self.manifest_key != f"{self.group_id}/manifest":
            raise ValueError("manifest_key does not belong to manifest group")
        prefix = f"{self.group_id}/payload/"
        if not all(fragment.object_key.startswith(prefix) for fragment in self.fragments):
            raise ValueError("payload object_key does not belong to manifest group")

    def _check_fragments(self) -> None:
        known = by_tensor_id(self.tensors)
        check.unique((it.fragment_id for it in self.fragments), "duplicate fragment_id")
        for fragment in self.fragments:
            tensor = known.get(fragment.tensor_id)
            if tensor is None:
                raise ValueError(f"unknown tensor_id: {fragment.tensor_id}")
            box = (fragment.global_offset, fragment.local_shape)
            check_geometry(tensor, fragment.fragment_id, *box, fragment.nbytes)

    def _check_aliases(self) -> None:
        known = by_tensor_id(self.tensors)
        shared = [fragment for fragment in self.fragments if fragment.aliases]
        boxes = grouped(shared, lambda it: (it.aliases, it.global_offset, it.local_shape))
        for (aliases, *_), members in boxes.items():
            for tensor_id in aliases:
                if tensor_id not in known:
                    raise ValueError(f"stored alias references unknown tensor: {tensor_id}")
            if {it.tensor_id for it in members} != set(aliases):
                raise ValueError(f"stored alias group is incomplete: {', '.join(aliases)}")
            if len({known[tensor_id].form for tensor_id in aliases}) > 1:
                raise ValueError(f"stored alias tensor descriptors differ: {', '.join(aliases)}")

    def _check_cover(self) -> None:
        held = grouped(self.fragments, lambda it: it.tensor_id)
        for tensor in self.tensors:
            boxes = [(it.global_offset, it.local_shape) for it in held.get(tensor.tensor_id, [])]
            check.unique(boxes, f"duplicate fragment geometry: {tensor.tensor_id}")
            origin = (0,) * len(tensor.global_shape)
            if not boxes_exactly_cover(origin, tensor.global_shape, boxes):
                raise ValueError(f"tensor is not fully covered: {tensor.tensor_id}")

    def _check_objects(self) -> None:
        for key, held in grouped(self.fragments, lambda it: it.object_key).items():
            ordered = sorted(held, key=lambda it: it.object_offset)
            for left, right in zip(ordered, ordered[1:]):
                if left.object_offset + left.nbytes > right.object_offset:
                    names = f"{left.fragment_id} and {right.fragment_id} in {key}"
                    raise ValueError(f"stored fragment object ranges overlap: {names}")

    @property
    def resource_kind(self) -> ResourceKind:
        """Always model weights."""
        return ResourceKind.MODEL_WEIGHT

    @cached_property
    def manifest_digest(self) -> str:
        """SHA-256 of the JSON form, in hexadecimal."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()

    @property
    def manifest_identity(self) -> StoredManifestIdentity:
        """Where the manifest lies, and its digest."""
        place = {name: getattr(self, name) for name in (*_TEXTS, "weight_generation")}
        return StoredManifestIdentity(**place, content_sha256=self.manifest_digest)

    def to_json(self) -> str:
        """Return the JSON form, as Mooncake writes it: UTF-8, lists in the order given."""
        form: dict[str, Any] = {it.name: getattr(self, it.name) for it in fields(self)}
        form["resource_kind"] = self.resource_kind.value
        form["tensors"] = [tensor_form(tensor) for tensor in self.tensors]
        form["fragments"] = [asdict(fragment) for fragment in self.fragments]
        return json.dumps(form, sort_keys=True, separators=(",", ":"), ensure_ascii=False)

    @classmethod
    def from_json(cls, value: str | bytes | bytearray) -> WeightManifest:
        """Return the manifest of a JSON text; raises `ValueError` for any other."""
        return cls.from_dict(load(value, "weight manifest"))

    @classmethod
    def from_dict(cls, raw: Mapping[str, object]) -> WeightManifest:
        """Return the manifest of a decoded JSON object; raises `ValueError` for any other."""
        names = [it.name for it in fields(cls)]
        form = dict(exact(raw, (*names, "resource_kind"), "weight manifest"))
        if form.pop("resource_kind") != ResourceKind.MODEL_WEIGHT.value:
            raise ValueError("weight manifest resource_kind must be model_weight")
        tensors = check.sequence(form["tensors"], "WeightManifest tensors")
        fragments = check.sequence(form["fragments"], "WeightManifest fragments")
        form["tensors"] = tuple(map(tensor_of, tensors))
        form["fragments"] = tuple(map(_stored_fragment, fragments))
        return cls(**form)


def _stored_fragment(value: object) -> StoredFragment:
    names = [it.name for it in fields(StoredFragment)]
    return StoredFragment(**exact(value, names, "stored fragment"))


def validate_weight_manifest_snapshot(manifest: WeightManifest) -> WeightManifest:
    """Return a copy that was checked again; raises `ValueError` for what is no manifest."""
    if not isinstance(manifest, WeightManifest):
        raise ValueError("weight manifest snapshot is invalid")
    return replace(manifest)
