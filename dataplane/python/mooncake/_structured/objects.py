"""Structured objects in bundles: put members with their specifications, read them back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from . import fields
from .bundles import AnyRef, Bundles
from .members import MemberReader, array_type, shape_of
from .model import (
    BundleTransferPolicy,
    RemoteBundleRef,
    StructuredObjectPayload,
    StructuredObjectReadSpec,
    StructuredObjectResult,
)
from .reader import BYTES, PayloadReader, Range
from .rows import chosen_rows, stored_rows
from .sources import ScatteredPayload, flat_view
from .writer import PayloadWriter


class StoredObject:
    """A structured object of which the manifest and the metadata are read."""

    def __init__(
        self, manifest: Mapping[str, Any], reader: PayloadReader, members: MemberReader
    ) -> None:
        self.payloads: Mapping[str, Any] = manifest["buffers"]
        self.metadata = fields.decoded_metadata(reader.read(manifest["meta"]))
        self.specs = fields.field_specs(self.metadata)
        self._reader, self._members = reader, members

    def spec(self, name: str) -> dict[str, Any]:
        """Return the specification of a member; one without is bytes."""
        return self.specs.get(name, {"encoding": "bytes"})

    def payload(self, name: str) -> Mapping[str, Any]:
        """Return the manifest's entry of a member; KeyError if there is none."""
        if name not in self.payloads:
            raise KeyError(f"there is no member {name!r}; there are {sorted(self.payloads)}")
        return self.payloads[name]

    def rows_of(self, name: str, selection: Any) -> list[int] | None:
        """Return the row numbers of a selection of a member."""
        if selection is None:
            return None
        shape = shape_of(self.spec(name))
        if not shape:
            raise ValueError(f"member {name!r} does not support slicing")
        return chosen_rows(selection, stored_rows(shape[0], self.payload(name)["bytes"]))

    def read(self, name: str, rows: list[int] | None = None, destination: Any = None) -> Any:
        """Return a member, or some rows of it."""
        return self._members.read(name, self.payload(name), self.spec(name), rows, destination)

    def elements(self, name: str, ranges: Sequence[Range]) -> np.ndarray:
        """Return ranges of elements of a flat array, of bytes for a member that is bytes."""
        spec = self.spec(name)
        dtype = array_type(name, spec)[0] if spec.get("encoding") == "ndarray" else BYTES
        count = sum(length for _, length in ranges)
        scaled = [(start * dtype.itemsize, size * dtype.itemsize) for start, size in ranges]
        return self._reader.read_array(self.payload(name), dtype, (count,), scaled)


class StructuredObjects:
    """Structured objects below one prefix of a store."""

    def __init__(
        self, store: Any, bundles: Bundles, writer: PayloadWriter, reader: PayloadReader
    ) -> None:
        self._bundles, self._reader = bundles, reader
        self._members = MemberReader(reader, store)
        self._put_member = fields.member_putter(writer)

    def put_raw(
        self,
        meta: Any,
        buffers: Mapping[str, Any],
        partition: str,
        chunk_bytes: int,
        policy: BundleTransferPolicy,
        config: Any,
    ) -> RemoteBundleRef:
        """Put metadata and members that are bytes, without specifications."""
        members = {
            name: ScatteredPayload((flat_view(value, name),), (value,))
            for name, value in buffers.items()
        }
        put = self._put_member
        return self._bundles.put(meta, members, put, partition, chunk_bytes, policy, config)

    def put(
        self,
        payload: StructuredObjectPayload,
        partition: str,
        chunk_bytes: int,
        policy: BundleTransferPolicy,
        config: Any,
    ) -> RemoteBundleRef:
        """Put an object."""
        meta, members = fields.described(payload.metadata, payload.buffers)
        put = self._put_member
        return self._bundles.put(meta, members, put, partition, chunk_bytes, policy, config)

    def open(self, ref: AnyRef) -> StoredObject:
        """Read manifest and metadata of an object."""
        return StoredObject(self._bundles.resolve(ref), self._reader, self._members)

    def read(
        self, spec: StructuredObjectReadSpec, destinations: Mapping[str, Any] | None
    ) -> StructuredObjectResult:
        """Read what a specification selects; ValueError if that is nothing."""
        if spec.member_names is not None and not spec.member_names:
            raise ValueError("the read specification selected no members")
        stored = self.open(spec.ref)
        names = spec.member_names or tuple(stored.payloads)
        into = destinations or {}
        unknown = sorted({*into, *(name for name, _ in spec.member_slices)} - set(names))
        if unknown:
            raise ValueError(f"members {unknown} have a slice or a destination and are not read")
        objects = {
            name: stored.read(name, stored.rows_of(name, spec.member_slice(name)), into.get(name))
            for name in names
        }
        return StructuredObjectResult(stored.metadata, objects)

    def append(
        self,
        old: AnyRef,
        payload: StructuredObjectPayload,
        partition: str,
        chunk_bytes: int,
        policy: BundleTransferPolicy,
        config: Any,
    ) -> RemoteBundleRef:
        """Put more members beside those of an object; the old one can still be read."""
        added = self.put(payload, partition, chunk_bytes, policy, config)
        try:
            metadata = self.open(old).metadata
            new = self.open(added).metadata
            specs = fields.field_specs(metadata) | fields.field_specs(new)
            meta = fields.encoded_metadata({**metadata, **new, fields.FIELD_SPECS: specs})
            merged = self._bundles.merge([old, added], meta, partition, chunk_bytes, config)
        except BaseException:
            self._bundles.remove(added)
            raise
        self._bundles.drop_wrapping(added)
        return merged
