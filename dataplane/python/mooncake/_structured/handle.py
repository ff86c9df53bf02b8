"""References of batches as plain values, to be sent to another process as JSON.

Invariant: an imported reference names only stages that it has.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from .model import MooncakeDataProtoRef, RemoteBundleRef, StructuredFieldLocation

HANDLE_TYPE = "mooncake_dataproto_ref"
HANDLE_VERSION = 1
HANDLE_KIND = "bundle_stages"
# Version 2 was written for a while by handles that have a storage group.
READ_VERSIONS = (HANDLE_VERSION, 2)
STORAGE_GROUP = "storage_group_id"

DataProtoRefLike = MooncakeDataProtoRef | Mapping[str, Any]


def is_dataproto_ref_handle(value: Any) -> bool:
    """Whether a value is what `export_dataproto_ref` returns."""
    return isinstance(value, Mapping) and value.get("type") == HANDLE_TYPE


def export_dataproto_ref(ref: MooncakeDataProtoRef) -> dict[str, Any]:
    """Return a reference as values that JSON can hold; TypeError if its metadata has others."""
    if not isinstance(ref, MooncakeDataProtoRef):
        raise TypeError(f"a MooncakeDataProtoRef is needed, not {type(ref).__name__}")
    fields = {
        name: {"stage": it.stage, "member": it.member, "section": it.section}
        for name, it in ref.field_index.items()
    }
    stages = {name: {"manifest_key": it.manifest_key} for name, it in ref.stage_refs.items()}
    handle: dict[str, Any] = {
        "type": HANDLE_TYPE,
        "version": HANDLE_VERSION,
        "kind": HANDLE_KIND,
        "batch_size": ref.batch_size,
        "namespace": ref.namespace,
        "partition": ref.partition,
        "global_indexes": _plain(ref.global_indexes),
        "stage_refs": stages,
        "field_index": fields,
        "meta_info": _plain(ref.meta_info),
        "encoded_non_tensor": _plain(ref.encoded_non_tensor),
    }
    if ref._storage_group_id is not None:
        handle[STORAGE_GROUP] = ref._storage_group_id
    json.dumps(handle)
    return handle


def import_dataproto_ref(handle: Mapping[str, Any]) -> MooncakeDataProtoRef:
    """Return the reference of a handle; ValueError names what is wrong with it."""
    if not is_dataproto_ref_handle(handle):
        raise ValueError("this is not a handle of a stored batch")
    version = handle.get("version")
    if version not in READ_VERSIONS:
        raise ValueError(f"unsupported handle version {version!r}; 1 and 2 are understood")
    if handle.get("kind") != HANDLE_KIND:
        raise ValueError(f"unsupported handle kind {handle.get('kind')!r}")
    stages = {
        _name(stage, "a stage"): RemoteBundleRef(
            _name(_mapping(entry, f"stage {stage!r}").get("manifest_key"), "manifest_key"), {}
        )
        for stage, entry in _mapping(handle.get("stage_refs"), "stage_refs").items()
    }
    fields = {
        _name(name, "a field"): _location(name, entry, stages)
        for name, entry in _mapping(handle.get("field_index"), "field_index").items()
    }
    group = handle.get(STORAGE_GROUP)
    if group is not None or version != HANDLE_VERSION:
        _name(group, STORAGE_GROUP)
    return MooncakeDataProtoRef(
        batch_size=_count(handle.get("batch_size")),
        stage_refs=stages,
        field_index=fields,
        meta_info=dict(_mapping(handle.get("meta_info", {}), "meta_info")),
        namespace=str(handle.get("namespace", "default")),
        partition=str(handle.get("partition", "default")),
        global_indexes=_indexes(handle.get("global_indexes")),
        encoded_non_tensor=dict(
            _mapping(handle.get("encoded_non_tensor", {}), "encoded_non_tensor")
        ),
        _storage_group_id=group,
    )


def resolve(ref: DataProtoRefLike) -> MooncakeDataProtoRef:
    """Return the reference itself or that of a handle."""
    return ref if isinstance(ref, MooncakeDataProtoRef) else import_dataproto_ref(ref)


def _location(name: str, entry: Any, stages: Mapping[str, Any]) -> StructuredFieldLocation:
    entry = _mapping(entry, f"field {name!r}")
    section = entry.get("section")
    if section not in ("batch", "non_tensor_batch"):
        raise ValueError(f"field {name!r} has the section {section!r}")
    stage = _name(entry.get("stage"), f"the stage of field {name!r}")
    if stage not in stages:
        raise ValueError(f"field {name!r} is in an unknown stage {stage!r}")
    member = _name(entry.get("member"), f"the member of field {name!r}")
    return StructuredFieldLocation(stage, member, section)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    to_list = getattr(value, "tolist", None)
    return _plain(to_list()) if callable(to_list) else value


def _mapping(value: Any, what: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ValueError(f"{what} of the handle must be an object")
    return value


def _name(value: Any, what: str) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(f"{what} of the handle must be a non-empty string")
    return value


def _count(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f"batch_size of the handle must be 0 or more, not {value!r}")
    return value


def _indexes(value: Any) -> list[int] | None:
    if value is None:
        return None
    if not isinstance(value, list) or not all(isinstance(it, int) for it in value):
        raise ValueError("global_indexes of the handle must be a list of integers")
    return list(value)
