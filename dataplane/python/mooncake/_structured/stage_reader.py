"""Reading batches back: fields of several stages, all rows or some, into one batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from . import codecs
from .batch import Batch
from .model import MooncakeDataProtoRef, StructuredFieldLocation
from .objects import StoredObject, StructuredObjects
from .reader import Range
from .rows import Rows, chosen_rows


class _FieldColumns:
    """The columns of one encoded field in a stored object."""

    def __init__(self, stored: StoredObject, names: Mapping[str, str]) -> None:
        self._stored, self._names = stored, names

    def whole(self, name: str) -> Any:
        """Return a column."""
        return self._stored.read(self._names[name])

    def rows(self, name: str, rows: Sequence[int]) -> Any:
        """Return rows of a column."""
        return self._stored.read(self._names[name], list(rows))

    def elements(self, name: str, ranges: Sequence[Range]) -> Any:
        """Return ranges of elements of a flat column."""
        return self._stored.elements(self._names[name], ranges)


class StageReader:
    """Reads batches. Each stage's manifest and metadata are read once per call."""

    def __init__(self, objects: StructuredObjects) -> None:
        self._objects = objects

    def read(
        self,
        ref: MooncakeDataProtoRef,
        names: Sequence[str],
        meta_info_keys: Sequence[str] | None,
        rows: Rows,
        destinations: Mapping[str, Any] | None,
    ) -> Batch:
        """Return these fields of a batch, some rows of them or all, and its metadata."""
        chosen = chosen_rows(rows, ref.batch_size)
        into = dict(destinations or {})
        unknown = sorted(set(into) - set(names))
        if unknown:
            raise KeyError(f"destinations for fields that are not read: {unknown}")
        stages = {ref.field_index[name].stage for name in names}
        stored = {stage: self._objects.open(ref.stage_refs[stage]) for stage in stages}
        batch = Batch({}, {}, _chosen_metadata(ref, meta_info_keys))
        for name in names:
            where = ref.field_index[name]
            encoded = ref.encoded_non_tensor.get(name)
            if encoded is None:
                value = stored[where.stage].read(where.member, chosen, into.get(name))
            elif name in into:
                raise ValueError(f"field {name!r} is encoded and does not support destinations")
            else:
                value = _decoded(stored[where.stage], encoded, chosen)
            getattr(batch, where.section)[name] = value
        return batch

    def view(self, ref: MooncakeDataProtoRef) -> dict[str, Any]:
        """Return what a batch consists of, without reading its fields."""
        stored = {stage: self._objects.open(it) for stage, it in ref.stage_refs.items()}
        sections: dict[str, dict[str, Any]] = {"batch": {}, "non_tensor_batch": {}}
        for name, where in ref.field_index.items():
            sections[where.section][name] = {
                "section": where.section,
                "stage": where.stage,
                "member": where.member,
                "spec": _spec(stored[where.stage], where, ref.encoded_non_tensor.get(name)),
            }
        return {
            "namespace": ref.namespace,
            "partition": ref.partition,
            "batch_size": ref.batch_size,
            "batch_fields": sections["batch"],
            "non_tensor_fields": sections["non_tensor_batch"],
            "meta_info_keys": list(ref.meta_info),
            "stages": {
                stage: {
                    "manifest_key": it.manifest_key,
                    "dataproto": stored[stage].metadata.get("dataproto", {}),
                }
                for stage, it in ref.stage_refs.items()
            },
        }


def selected_fields(
    ref: MooncakeDataProtoRef,
    fields: Sequence[str] | None,
    batch_fields: Sequence[str] | None,
    non_tensor_fields: Sequence[str] | None,
) -> list[str]:
    """Return the names to read: `fields` of any section, or those of each, or all.

    KeyError names those that are not there; ValueError if `fields` is combined with another list.
    """
    by_section = {"batch": batch_fields, "non_tensor_batch": non_tensor_fields}
    if fields is not None:
        if batch_fields is not None or non_tensor_fields is not None:
            raise ValueError("fields cannot be combined with batch_fields or non_tensor_fields")
        names, known = list(fields), set(ref.field_index)
    elif batch_fields is None and non_tensor_fields is None:
        return list(ref.field_index)
    else:
        names = [*(batch_fields or ()), *(non_tensor_fields or ())]
        known = {it for it, at in ref.field_index.items() if it in (by_section[at.section] or ())}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise KeyError(f"unknown DataProto fields {unknown}; there are {sorted(ref.field_index)}")
    return names


def _chosen_metadata(ref: MooncakeDataProtoRef, keys: Sequence[str] | None) -> dict[str, Any]:
    if keys is None:
        return dict(ref.meta_info)
    unknown = [key for key in keys if key not in ref.meta_info]
    if unknown:
        raise KeyError(f"unknown meta_info keys {unknown}; there are {sorted(ref.meta_info)}")
    return {key: ref.meta_info[key] for key in keys}


def _decoded(stored: StoredObject, encoded: Mapping[str, Any], rows: list[int] | None) -> Any:
    codec, names = encoded["codec"], encoded["payload_members"]
    metadata = encoded.get("metadata") or {}
    columns = _FieldColumns(stored, names)
    if rows is None:
        members = {name: columns.whole(name) for name in names}
        return codecs.decode(codec, members, encoded["rows"], metadata)
    members, metadata = codecs.select(codec, columns, rows, metadata)
    return codecs.decode(codec, members, len(rows), metadata)


def _spec(
    stored: StoredObject, where: StructuredFieldLocation, encoded: Mapping[str, Any] | None
) -> dict[str, Any]:
    if encoded is None:
        return dict(stored.spec(where.member))
    names = encoded["payload_members"]
    return {
        "encoding": "structured_non_tensor",
        "codec": encoded["codec"],
        "metadata": encoded.get("metadata"),
        "payload_members": dict(names),
        "payload_specs": {part: dict(stored.spec(name)) for part, name in names.items()},
    }
