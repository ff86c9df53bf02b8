"""How a member is stored: as an array, a tensor or bytes, and its specification."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from . import tensors
from .model import FIELD_SPECS, BundleTransferPolicy
from .sources import ScatteredPayload, TensorObjectBuffer, array_bytes, flat_view
from .writer import PayloadWriter

ENCODINGS = ("ndarray", "torch_tensor", "bytes")


def described(
    metadata: Mapping[str, Any], members: Mapping[str, Any]
) -> tuple[bytes, dict[str, Any]]:
    """Return the metadata object and what to write for each member."""
    if not isinstance(metadata, Mapping):
        raise TypeError(f"metadata must be a mapping, not {type(metadata).__name__}")
    if FIELD_SPECS in metadata:
        raise ValueError(f"the metadata key {FIELD_SPECS!r} is reserved")
    if not isinstance(metadata.get("layout", ""), str):
        raise ValueError("the layout in the metadata must be a string")
    pairs = {name: _described(name, value) for name, value in members.items()}
    whole = dict(metadata)
    whole.setdefault("layout", "structured")
    if pairs:
        whole[FIELD_SPECS] = {name: spec for name, (spec, _) in pairs.items()}
    return encoded_metadata(whole), {name: source for name, (_, source) in pairs.items()}


def encoded_metadata(metadata: Mapping[str, Any]) -> bytes:
    """Return metadata as JSON; TypeError if JSON cannot hold it."""
    try:
        return json.dumps(metadata, separators=(",", ":")).encode()
    except (TypeError, ValueError) as error:
        raise TypeError(f"the metadata is not JSON-serializable: {error}") from None


def decoded_metadata(blob: bytes) -> dict[str, Any]:
    """Return the metadata of a structured object; ValueError if it is none."""
    metadata = json.loads(blob)
    if not isinstance(metadata, dict):
        raise ValueError("the metadata of a structured object must be a JSON object")
    return metadata


def field_specs(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the specification of each member."""
    specs = metadata.get(FIELD_SPECS, {})
    if not isinstance(specs, dict):
        raise ValueError(f"{FIELD_SPECS} must be an object")
    return specs


def _described(name: str, value: Any) -> tuple[dict[str, Any], Any]:
    if isinstance(value, TensorObjectBuffer):
        return {"encoding": "torch_tensor"}, value
    if isinstance(value, ScatteredPayload):
        if value.dtype is None or value.shape is None:
            return {"encoding": "bytes"}, value
        return {"encoding": "ndarray", "dtype": value.dtype, "shape": list(value.shape)}, value
    if tensors.is_tensor(value):
        if value.is_nested:
            return tensors.jagged_field(value)
        spec = {
            "encoding": "torch_tensor",
            "dtype": str(value.dtype),
            "shape": list(value.shape),
            "element_size": value.element_size(),
        }
        return spec, value
    if isinstance(value, np.ndarray):
        if value.dtype.hasobject:
            raise TypeError(f"member {name!r} is an array of Python objects; encode its rows first")
        spec = {"encoding": "ndarray", "dtype": value.dtype.str, "shape": list(value.shape)}
        return spec, ScatteredPayload((array_bytes(value),), (value,))
    return {"encoding": "bytes"}, ScatteredPayload((flat_view(value, name),), (value,))


def member_putter(writer: PayloadWriter) -> Any:
    """Return the function that puts one described member."""

    def put(
        key: str, source: Any, chunk_bytes: int, policy: BundleTransferPolicy, config: Any
    ) -> dict[str, Any]:
        if isinstance(source, TensorObjectBuffer):
            return writer.put_tensor_object(key, source, config)
        if isinstance(source, ScatteredPayload):
            return writer.put(key, source, chunk_bytes, policy, config)
        return _put_tensor(writer, key, source, policy, config)

    return put


def _put_tensor(
    writer: PayloadWriter, key: str, tensor: Any, policy: BundleTransferPolicy, config: Any
) -> dict[str, Any]:
    if policy.copy_mode == "zero_copy":
        raise ValueError(
            "a zero-copy put of a tensor needs a BufferPool tensor-object buffer: write header and "
            "data into a lease and pass tensor_object_buffer"
        )
    if not tensors.has_header(tensor):
        payload = ScatteredPayload((tensors.saved(tensor),))
        entry = writer.put(key, payload, max(payload.nbytes, 1), policy, config)
        return entry | {"format": tensors.TORCH_SAVE}
    size = tensors._tensor.HEADER_BYTES + tensor.numel() * tensor.element_size()
    if policy.copy_mode == "auto" and writer.put_tensor(key, tensor, config):
        return {
            "key": key,
            "kind": "tensor",
            "bytes": size,
            "dtype": str(tensor.dtype),
            "shape": list(tensor.shape),
            "chunks": [{"key": key, "bytes": size}],
            "metadata_bytes": tensors._tensor.HEADER_BYTES,
        }
    entry = writer.put(key, tensors.header_and_data(tensor), size, policy, config)
    return entry | {"metadata_bytes": tensors._tensor.HEADER_BYTES}
