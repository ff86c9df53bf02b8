"""`MooncakeBundleTransfer`: bundles, structured objects and batches in a store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from . import pool_array
from .batch import Batch, Schemas
from .bundles import AnyRef, Bundles
from .flat_dict import as_batch
from .handle import DataProtoRefLike, resolve
from .model import (
    DEFAULT_CHUNK_BYTES,
    BundleTransferPolicy,
    MooncakeDataProtoRef,
    PayloadType,
    RemoteBundleRef,
    StructuredObjectPayload,
    StructuredObjectReadSpec,
    StructuredObjectResult,
)
from .objects import StructuredObjects
from .reader import PayloadReader
from .rows import Rows
from .stage_reader import StageReader, selected_fields
from .stages import StageWriter, WriteOptions
from .writer import PayloadWriter

WRAPPED = "__mooncake_wrapped_object__"


class MooncakeBundleTransfer:
    """Structured objects below `key_prefix` of a store.

    `store` is a `MooncakeDistributedStore` or anything with `put`, `get` and `remove`. With a
    `buffer_pool` payloads go through its registered memory, and arrays that are read lie in it
    until they are gone or `release_result` is called. A put that fails leaves nothing.
    A failed store call is a RuntimeError.
    """

    def __init__(
        self,
        store: Any,
        key_prefix: str = "bundle",
        default_chunk_bytes: int = DEFAULT_CHUNK_BYTES,
        buffer_pool: Any = None,
    ) -> None:
        self._chunk_bytes = _checked_chunk(default_chunk_bytes)
        writer = PayloadWriter(store, buffer_pool)
        reader = PayloadReader(store, buffer_pool)
        self._bundles = Bundles(store, writer, key_prefix)
        self._objects = StructuredObjects(store, self._bundles, writer, reader)
        self._stages = StageWriter(self._bundles, self._objects)
        self._batches = StageReader(self._objects)

    @property
    def key_prefix(self) -> str:
        """What all keys begin with."""
        return self._bundles.prefix

    def put_bundle(
        self,
        meta: Any,
        buffers: Mapping[str, Any],
        partition: str = "default",
        chunk_bytes: int | None = None,
        policy: BundleTransferPolicy | None = None,
        max_inflight_put: int | None = None,
        config: Any = None,
    ) -> RemoteBundleRef:
        """Put metadata and named buffers, all of them bytes."""
        how = self._how(chunk_bytes, policy, max_inflight_put)
        return self._objects.put_raw(meta, buffers, partition, *how, config)

    def remove_bundle(self, ref: AnyRef) -> None:
        """Remove all keys of a bundle; RuntimeError if one stays."""
        self._bundles.remove(ref)

    def put_structured_object(
        self,
        payload: StructuredObjectPayload,
        partition: str = "default",
        chunk_bytes: int | None = None,
        policy: BundleTransferPolicy | None = None,
        max_inflight_put: int | None = None,
        config: Any = None,
    ) -> RemoteBundleRef:
        """Put an object of arrays, tensors and bytes. `config.group_ids` may name one group."""
        how = self._how(chunk_bytes, policy, max_inflight_put)
        return self._objects.put(payload, partition, *how, config)

    def put_object(
        self,
        obj: Any,
        partition: str = "default",
        chunk_bytes: int | None = None,
        policy: BundleTransferPolicy | None = None,
        max_inflight_put: int | None = None,
        config: Any = None,
    ) -> RemoteBundleRef:
        """Put a mapping of arrays, tensors and bytes, or one of these by itself."""
        single = not isinstance(obj, Mapping)
        payload = StructuredObjectPayload(
            {WRAPPED: True} if single else {}, {"value": obj} if single else obj
        )
        how = (chunk_bytes, policy, max_inflight_put, config)
        return self.put_structured_object(payload, partition, *how)

    def get_object(self, ref: AnyRef) -> Any:
        """Return what `put_object` has put."""
        result = self.materialize(self.read_spec(ref))
        return result.objects["value"] if result.metadata.get(WRAPPED) else result.objects

    def read_spec(self, ref: AnyRef) -> StructuredObjectReadSpec:
        """Return a specification that reads all of an object. Nothing is read yet."""
        return StructuredObjectReadSpec(ref)

    def materialize(self, spec: StructuredObjectReadSpec) -> StructuredObjectResult:
        """Read what a specification selects."""
        return self._objects.read(spec, None)

    def materialize_into(
        self, spec: StructuredObjectReadSpec, destinations: Mapping[str, Any] | None
    ) -> StructuredObjectResult:
        """As `materialize`, members with a destination into its memory."""
        return self._objects.read(spec, destinations)

    @staticmethod
    def release_result(result: Any) -> None:
        """Give back the pool's memory under a result. Its arrays must not be used any more."""
        pool_array.release_result(result)

    def put(
        self,
        data: Any,
        *,
        type: PayloadType = "dataproto",
        namespace: str = "default",
        partition: str = "default",
        stage: str = "default",
        chunk_bytes: int | None = None,
        policy: BundleTransferPolicy | None = None,
        config: Any = None,
        field_schemas: Schemas | None = None,
    ) -> MooncakeDataProtoRef:
        """Put a batch: an object with its sections, or with type "dict" a flat dict."""
        batch = as_batch(data, field_schemas) if _is_dict(type) else Batch.of(data)
        options = self._options(chunk_bytes, policy, config, field_schemas)
        return self._stages.put(batch, namespace, partition, stage, options)

    def get(
        self,
        ref: DataProtoRefLike,
        *,
        type: PayloadType = "dataproto",
        fields: Sequence[str] | None = None,
        batch_fields: Sequence[str] | None = None,
        non_tensor_fields: Sequence[str] | None = None,
        meta_info_keys: Sequence[str] | None = None,
        data_cls: Any = None,
        destinations: Mapping[str, Any] | None = None,
        rows: Rows = None,
    ) -> Any:
        """Read a batch: as `data_cls` or a dict of sections, with type "dict" as a flat dict.

        `fields`, or `batch_fields` and `non_tensor_fields`, choose what is read; `rows` is a slice
        or row numbers, and only these rows travel. `destinations` are memory for fields.
        """
        found = resolve(ref)
        names = selected_fields(found, fields, batch_fields, non_tensor_fields)
        flat = _is_dict(type)
        batch = self._batches.read(found, names, meta_info_keys, rows, destinations)
        return batch.flat() if flat else batch.build(data_cls)

    def put_dataproto(
        self,
        data: Any,
        *,
        namespace: str = "default",
        partition: str = "default",
        stage: str = "default",
        chunk_bytes: int | None = None,
        policy: BundleTransferPolicy | None = None,
        field_schemas: Schemas | None = None,
        config: Any = None,
    ) -> MooncakeDataProtoRef:
        """Put a batch with its sections."""
        options = self._options(chunk_bytes, policy, config, field_schemas)
        return self._stages.put(Batch.of(data), namespace, partition, stage, options)

    def append_dataproto_fields(
        self,
        ref: DataProtoRefLike,
        data: Any,
        *,
        stage: str,
        overwrite: bool = False,
        chunk_bytes: int | None = None,
        policy: BundleTransferPolicy | None = None,
        field_schemas: Schemas | None = None,
        config: Any = None,
    ) -> MooncakeDataProtoRef:
        """Put more fields of a stored batch and return a reference that has them all."""
        options = self._options(chunk_bytes, policy, config, field_schemas)
        return self._stages.append(resolve(ref), Batch.of(data), stage, overwrite, options)

    def dataproto_manifest_view(self, ref: DataProtoRefLike) -> dict[str, Any]:
        """Return which fields a batch has and how they are stored."""
        return self._batches.view(resolve(ref))

    def get_dataproto(self, ref: DataProtoRefLike, **selection: Any) -> Any:
        """Read a batch with its sections; the arguments are those of `get`."""
        return self.get(ref, type="dataproto", **selection)

    def cleanup_dataproto(self, ref: DataProtoRefLike) -> None:
        """Remove all stages of a batch; RuntimeError if a key stays."""
        for stage in resolve(ref).stage_refs.values():
            self._bundles.remove(stage)

    def _how(
        self,
        chunk_bytes: int | None,
        policy: BundleTransferPolicy | None,
        max_inflight_put: int | None = None,
    ) -> tuple[int, BundleTransferPolicy]:
        size = self._chunk_bytes if chunk_bytes is None else _checked_chunk(chunk_bytes)
        return size, (policy or BundleTransferPolicy()).checked(max_inflight_put)

    def _options(
        self,
        chunk_bytes: int | None,
        policy: BundleTransferPolicy | None,
        config: Any,
        schemas: Schemas | None,
    ) -> WriteOptions:
        return WriteOptions(*self._how(chunk_bytes, policy), config, schemas)


def _checked_chunk(chunk_bytes: int) -> int:
    if chunk_bytes < 1:
        raise ValueError(f"chunk_bytes is {chunk_bytes}; use 1 or more")
    return chunk_bytes


def _is_dict(kind: str) -> bool:
    if kind not in ("dataproto", "dict"):
        raise ValueError(f"unsupported Mooncake payload type {kind!r}; use 'dataproto' or 'dict'")
    return kind == "dict"
