"""A batch of named fields in three sections, whatever class it comes in.

`batch` has arrays and tensors, `non_tensor_batch` rows of anything, `meta_info` what is for all
rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import tensors
from .model import FieldSchema

SECTIONS = ("batch", "non_tensor_batch", "meta_info")
Schemas = Mapping[str, FieldSchema]


@dataclass
class Batch:
    """The fields of a batch by section."""

    batch: dict[str, Any]
    non_tensor_batch: dict[str, Any]
    meta_info: dict[str, Any]

    @classmethod
    def of(cls, data: Any) -> Batch:
        """Return the fields of what has these sections, or of a mapping of arrays."""
        if isinstance(data, Mapping):
            named = [name for name in SECTIONS if name in data]
            if not named or not all(_is_section(data[name]) for name in named):
                return cls(dict(data), {}, {})
            return cls(*(_fields(data.get(name)) for name in SECTIONS))
        found = [getattr(data, name, None) for name in SECTIONS]
        if all(it is None for it in found) or not all(_is_section(it) for it in found):
            raise TypeError(f"a {type(data).__name__} is no batch: it has no sections of fields")
        return cls(*map(_fields, found))

    def size(self) -> int:
        """Return the rows that all fields have, 0 without a field; ValueError if they differ."""
        both = sorted(set(self.batch) & set(self.non_tensor_batch))
        if both:
            raise ValueError(f"fields {both} of batch and non_tensor_batch overlap")
        sizes = {name: rows_of(name, it) for name, it in self.rows_by_name().items()}
        if len(set(sizes.values())) > 1:
            raise ValueError(f"the fields have inconsistent batch sizes: {sizes}")
        return next(iter(sizes.values()), 0)

    def rows_by_name(self) -> dict[str, Any]:
        """Return the fields that have rows."""
        return self.batch | self.non_tensor_batch

    def check_schemas(self, schemas: Schemas | None) -> None:
        """ValueError if a schema names a section that does not have its field."""
        for name, schema in (schemas or {}).items():
            section = section_of(name, schema)
            held = [it for it in SECTIONS if name in getattr(self, it)]
            if section is not None and held and section not in held:
                raise ValueError(f"schema of {name!r} declares section {section}; it is in {held}")

    def schema(self, name: str, schemas: Schemas | None) -> FieldSchema | None:
        """Return the schema of a field of `non_tensor_batch`."""
        found = (schemas or {}).get(name)
        if found is None or section_of(name, found) in (None, "non_tensor_batch"):
            return found
        return None

    def flat(self) -> dict[str, Any]:
        """Return all fields by name, rows as lists; ValueError if a name comes twice."""
        merged: dict[str, Any] = {}
        for section in SECTIONS:
            fields = getattr(self, section)
            both = sorted(set(merged) & set(fields))
            if both:
                raise ValueError(f"Duplicate keys in a flat dict: {both}; use type 'dataproto'")
            merged |= fields
        return {name: _as_list(value) for name, value in merged.items()}

    def as_mapping(self) -> dict[str, dict[str, Any]]:
        """Return the sections by name."""
        return {name: getattr(self, name) for name in SECTIONS}

    def build(self, data_cls: Any) -> Any:
        """Return the batch as `data_cls`, as a dict of sections without one."""
        sections = self.as_mapping()
        if data_cls is None or data_cls is dict:
            return sections
        from_dict = getattr(data_cls, "from_dict", None)
        if callable(from_dict):
            fields = (self.batch, self.non_tensor_batch, self.meta_info)
            return from_dict(fields[0], non_tensor_batch=fields[1], meta_info=fields[2])
        try:
            return data_cls(**sections)
        except TypeError:
            name = getattr(data_cls, "__name__", data_cls)
            raise TypeError(f"{name} cannot be constructed from {', '.join(SECTIONS)}") from None


def section_of(name: str, schema: FieldSchema) -> str | None:
    """Return the section that a schema names; ValueError if there is none such."""
    section = schema.metadata.get("section")
    if section is not None and section not in SECTIONS:
        raise ValueError(f"schema of {name!r}: section {section!r} is none of {SECTIONS}")
    return section


def rows_of(name: str, value: Any) -> int:
    """Return the rows of a field; TypeError if it has none."""
    try:
        return len(value)
    except TypeError as error:
        raise TypeError(f"field {name!r} has no rows: {error}") from None


def is_dense(value: Any) -> bool:
    """Whether a value is an array of numbers or a tensor, with rows."""
    if tensors.is_tensor(value):
        return value.dim() > 0
    return isinstance(value, np.ndarray) and value.dtype != object and value.ndim > 0


def is_list(value: Any) -> bool:
    """Whether a value is a sequence, but no text or bytes."""
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes, bytearray))


def _is_section(value: Any) -> bool:
    return value is None or isinstance(value, Mapping) or callable(getattr(value, "items", None))


def _fields(section: Any) -> dict[str, Any]:
    return {} if section is None else dict(section.items())


def _as_list(value: Any) -> Any:
    return list(value) if isinstance(value, np.ndarray) and value.dtype == object else value
