"""Writing batches: each stage is a structured object with the fields that were put together.

Invariant: a reference that is returned names only what is stored; an earlier reference of the same
batch stays readable until it is cleaned up or its stage is overwritten.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from . import codecs
from .batch import Batch, Schemas, is_list
from .bundles import AnyRef, Bundles
from .groups import config_in_group, new_group
from .model import (
    BundleTransferPolicy,
    MooncakeDataProtoRef,
    RemoteBundleRef,
    StructuredFieldLocation,
    StructuredObjectPayload,
)
from .objects import StructuredObjects
from .tensors import is_tensor

STAGE_LAYOUT = "dataproto_stage"


@dataclass(frozen=True)
class WriteOptions:
    """How a stage is put."""

    chunk_bytes: int
    policy: BundleTransferPolicy
    config: Any = None
    schemas: Schemas | None = None


@dataclass
class _Fields:
    """The members of a stage, where its fields are, and how rows of anything are encoded."""

    members: dict[str, Any] = field(default_factory=dict)
    locations: dict[str, StructuredFieldLocation] = field(default_factory=dict)
    encoded: dict[str, Any] = field(default_factory=dict)


class StageWriter:
    """Puts and appends stages of batches."""

    def __init__(self, bundles: Bundles, objects: StructuredObjects) -> None:
        self._bundles, self._objects = bundles, objects

    def put(
        self, data: Batch, namespace: str, partition: str, stage: str, options: WriteOptions
    ) -> MooncakeDataProtoRef:
        """Put the first stage of a batch."""
        data.check_schemas(options.schemas)
        rows = data.size()
        group = new_group(options.config)
        ref = MooncakeDataProtoRef(
            rows, {}, {}, data.meta_info, namespace, partition, _storage_group_id=group
        )
        return self._with_stage(ref, data, stage, options)

    def append(
        self,
        ref: MooncakeDataProtoRef,
        data: Batch,
        stage: str,
        overwrite: bool,
        options: WriteOptions,
    ) -> MooncakeDataProtoRef:
        """Put more fields: into a stage of their own or beside those of the stage."""
        data.check_schemas(options.schemas)
        rows = data.size()
        named = data.rows_by_name()
        if rows != ref.batch_size and named:
            raise ValueError(f"the batch size is {rows}, that of the stored batch {ref.batch_size}")
        both = sorted(set(ref.field_index) & set(named))
        if both and not overwrite:
            raise ValueError(f"fields {both} already exist; overwrite=True replaces their stage")
        if overwrite and named:
            held = {it for it, where in ref.field_index.items() if where.stage == stage}
            if held - set(named):
                raise ValueError(
                    f"to overwrite stage {stage!r} the data must include existing fields "
                    f"{sorted(held - set(named))}"
                )
        merged = replace(ref, meta_info={**ref.meta_info, **data.meta_info})
        return self._with_stage(merged, data, stage, options, overwrite)

    def _with_stage(
        self,
        ref: MooncakeDataProtoRef,
        data: Batch,
        stage: str,
        options: WriteOptions,
        overwrite: bool = False,
    ) -> MooncakeDataProtoRef:
        made = _encoded(data, stage, options.schemas)
        if not made.members:
            return ref
        config = config_in_group(options.config, ref._storage_group_id)
        about = {
            "version": 1,
            "namespace": ref.namespace,
            "partition": ref.partition,
            "stage": stage,
            "batch_size": ref.batch_size,
        }
        payload = StructuredObjectPayload(
            {"layout": STAGE_LAYOUT, "dataproto": about}, made.members
        )
        how = (ref.partition, options.chunk_bytes, options.policy, config)
        old = ref.stage_refs.get(stage)
        if old is None or overwrite:
            stored = self._objects.put(payload, *how)
            if old is not None:
                self._replace(old, stored)
        else:
            stored = self._objects.append(old, payload, *how)
        kept = {it: how for it, how in ref.encoded_non_tensor.items() if it not in made.locations}
        return replace(
            ref,
            stage_refs={**ref.stage_refs, stage: stored},
            field_index={**ref.field_index, **made.locations},
            encoded_non_tensor={**kept, **made.encoded},
        )

    def _replace(self, old: AnyRef, new: RemoteBundleRef) -> None:
        """Remove the old object of a stage; if a key of it stays, the new object goes, too.

        The caller has the data and the old reference, so that the call can be made again.
        """
        try:
            self._bundles.remove(old)
        except BaseException:
            self._bundles.discard(new)
            raise


def _encoded(data: Batch, stage: str, schemas: Schemas | None) -> _Fields:
    made = _Fields()
    for name, value in data.batch.items():
        member = f"batch.{name}"
        made.members[member] = value
        made.locations[name] = StructuredFieldLocation(stage, member, "batch")
    for name, value in data.non_tensor_batch.items():
        member = f"non_tensor_batch.{name}"
        made.locations[name] = StructuredFieldLocation(stage, member, "non_tensor_batch")
        schema = data.schema(name, schemas)
        if schema is not None:
            found = codecs.encode_by_schema(name, value, schema)
        elif _needs_codec(value):
            found = codecs.encode_by_rows(name, value)
        else:
            made.members[member] = value
            continue
        names = {part: f"{member}.{part}" for part in found.members}
        made.members |= {names[part]: column for part, column in found.members.items()}
        made.encoded[name] = {
            "codec": found.codec,
            "rows": found.rows,
            "metadata": found.metadata,
            "payload_members": names,
        }
    return made


def _needs_codec(value: Any) -> bool:
    if is_tensor(value):
        return False
    return is_list(value) or (isinstance(value, np.ndarray) and value.dtype == object)
