"""Which stored batch has which rows and fields: a catalog over references of structured objects.

Invariant: a stored batch is listed as long as a field of some row is in it, and no longer.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .structured_object_store import export_dataproto_ref, import_dataproto_ref

__all__ = ["DataProtoCatalog"]

# Manifest key of a stored batch, and the row in it.
Location = tuple[str, int]


@dataclass
class _Row:
    tag: dict[str, Any] = field(default_factory=dict)
    fields: dict[str, Location] = field(default_factory=dict)


class DataProtoCatalog:
    """Finds fields of rows by the rows' names. It moves no data and removes no objects.

    Rows belong to a partition. Each `update` with a handle lists one stored batch of one stage,
    with a row for each key. A catalog is for one thread; its owner serializes the calls. Errors are
    ValueError and change nothing.
    """

    def __init__(self) -> None:
        self._rows: dict[str, dict[str, _Row]] = {}
        self._handles: dict[str, dict[str, Any]] = {}
        # Fields of rows that are found in a stored batch.
        self._uses: Counter[str] = Counter()

    def update(
        self,
        partition: str,
        keys: Sequence[str],
        *,
        tags: Sequence[Mapping[str, Any]] | None = None,
        handle: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Add to the tags of rows, and list where all fields of a stored batch are.

        A field that was listed elsewhere is found in this batch from then on. Returns the "keys",
        their "tags" and the "fields" that they have together.
        """
        names = _names(keys, "keys")
        added = _tags(tags, len(names))
        if added is None and handle is None:
            raise ValueError("an update needs tags or a handle of a stored batch")
        batch = None if handle is None else self._checked(handle, len(names))
        rows = self._rows.setdefault(_name(partition, "partition"), {})
        for at, key in enumerate(names):
            row = rows.setdefault(key, _Row())
            if added is not None:
                row.tag |= added[at]
            if batch is not None:
                self._handles[batch[0]] = batch[1]
                self._place(row, {name: (batch[0], at) for name in batch[2]})
        chosen = [rows[key] for key in names]
        return {"keys": list(names), "tags": _copies(chosen), "fields": _all_fields(chosen)}

    def resolve(
        self, partition: str, keys: Sequence[str], fields: Sequence[str] | None = None
    ) -> dict[str, Any]:
        """Return what to read for these rows, in this order: all their fields, or `fields`.

        "field_groups" has the fields that lie at the same "locations", a pair of manifest key and
        row for each key; "handles" has the stored batches by manifest key.
        """
        rows = self._rows.get(_name(partition, "partition"), {})
        names = _names(keys, "keys")
        unknown = [key for key in names if key not in rows]
        if unknown:
            raise ValueError(f"keys {unknown} were not found in partition {partition!r}")
        chosen = [rows[key] for key in names]
        wanted = _all_fields(chosen) if fields is None else list(_names(fields, "fields"))
        if not wanted:
            raise ValueError(f"keys {list(names)} do not contain any fields")
        groups: dict[tuple[Location, ...], list[str]] = {}
        for name in wanted:
            lacking = [key for key in names if name not in rows[key].fields]
            if lacking:
                raise ValueError(f"field {name!r} is not ready for keys {lacking}")
            groups.setdefault(tuple(row.fields[name] for row in chosen), []).append(name)
        batches = {batch for places in groups for batch, _ in places}
        return {
            "keys": list(names),
            "tags": _copies(chosen),
            "fields": wanted,
            "field_groups": [
                {"fields": together, "locations": list(places)}
                for places, together in groups.items()
            ],
            "handles": {batch: copy.deepcopy(self._handles[batch]) for batch in sorted(batches)},
        }

    def list(self, partition: str | None = None) -> dict[str, dict[str, Any]]:
        """Return the tags of all rows, by partition and key."""
        wanted = self._rows if partition is None else [_name(partition, "partition")]
        return {
            name: {key: copy.deepcopy(row.tag) for key, row in self._rows[name].items()}
            for name in wanted
            if name in self._rows
        }

    def remove(self, partition: str, keys: Sequence[str]) -> None:
        """Forget rows; those that are not there are no error. Their objects stay in the store."""
        rows = self._rows.get(_name(partition, "partition"), {})
        for key in _names(keys, "keys"):
            row = rows.pop(key, None)
            if row is not None:
                self._forget(row.fields.values())
        if not rows:
            self._rows.pop(partition, None)

    def _checked(
        self, handle: Mapping[str, Any], rows: int
    ) -> tuple[str, dict[str, Any], tuple[str, ...]]:
        ref = import_dataproto_ref(handle)
        if ref.batch_size != rows:
            raise ValueError(f"the stored batch has {ref.batch_size} rows, {rows} keys are given")
        if len(ref.stage_refs) != 1:
            raise ValueError("a listed batch must have exactly one stage")
        fields = _names(ref.field_index, "fields of the handle")
        (stage,) = ref.stage_refs.values()
        exported = export_dataproto_ref(ref)
        if self._handles.get(stage.manifest_key, exported) != exported:
            raise ValueError(f"another batch is listed under {stage.manifest_key!r}")
        return stage.manifest_key, exported, fields

    def _place(self, row: _Row, places: dict[str, Location]) -> None:
        self._uses.update(batch for batch, _ in places.values())
        before = [row.fields[name] for name in places if name in row.fields]
        row.fields |= places
        self._forget(before)

    def _forget(self, places: Iterable[Location]) -> None:
        for batch, _ in places:
            self._uses[batch] -= 1
            if not self._uses[batch]:
                del self._uses[batch], self._handles[batch]


def _all_fields(rows: Iterable[_Row]) -> list[str]:
    return list(dict.fromkeys(name for row in rows for name in row.fields))


def _copies(rows: Iterable[_Row]) -> list[dict[str, Any]]:
    return [copy.deepcopy(row.tag) for row in rows]


def _name(value: Any, what: str) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(f"{what} must be a non-empty string, not {value!r}")
    return value


def _names(values: Iterable[str], what: str) -> tuple[str, ...]:
    if isinstance(values, str):
        raise ValueError(f"{what} must be a sequence of strings, not one string")
    names = tuple(_name(value, what) for value in values)
    if not names or len(set(names)) != len(names):
        raise ValueError(f"{what} must have at least one string, and none twice")
    return names


def _tags(tags: Sequence[Mapping[str, Any]] | None, count: int) -> list[dict[str, Any]] | None:
    if tags is None:
        return None
    if len(tags) != count:
        raise ValueError(f"tags and keys must have the same length: {len(tags)} and {count}")
    if not all(isinstance(tag, Mapping) for tag in tags):
        raise ValueError("each tag must be a mapping")
    return [copy.deepcopy(dict(tag)) for tag in tags]
