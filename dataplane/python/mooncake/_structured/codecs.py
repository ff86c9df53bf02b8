"""The codecs by name, and encoding a field of rows by its schema or by what its rows are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from . import byte_rows, recursive
from .columns import Codec, Members, Metadata, Source
from .inference import Decision, choose_codec
from .media_lists import MEDIA_LISTS
from .model import FieldSchema
from .number_rows import ARRAYS, SCALARS
from .tensor_rows import TENSOR_DICTS, TENSORS

RECURSIVE = "structured_recursive"
LAST_RESORTS = ("msgpack_ragged", "json_ragged")

_CODECS: dict[str, Codec] = {
    "ndarray": SCALARS,
    "typed_ragged": ARRAYS,
    "ragged_tensor": TENSORS,
    "ragged_tensor_dict": TENSOR_DICTS,
    "bytes_ragged": byte_rows.BYTES,
    "media_bytes": byte_rows.BYTES,
    "media_list_ragged": MEDIA_LISTS,
    "utf8_ragged": byte_rows.TEXT,
    "json_ragged": byte_rows.JSON,
    "msgpack_ragged": byte_rows.MSGPACK,
}


@dataclass
class EncodedField:
    """A field as columns, and what is needed to decode them."""

    codec: str
    rows: int
    members: Members
    metadata: Metadata


def codec_of(name: str) -> Codec:
    """Return a codec; ValueError for a name that is none."""
    found = _CODECS.get(name)
    if found is None:
        raise ValueError(f"unknown codec {name!r}; there are auto, {', '.join(_CODECS)}")
    return found


def encode_by_schema(path: str, values: Sequence[Any], schema: FieldSchema) -> EncodedField:
    """Encode rows as a schema says; its errors name the field and the codec."""
    rows = list(values)
    if not schema.nullable and any(value is None for value in rows):
        raise ValueError(f"{path} is not nullable and has a row without a value")
    if schema.codec == "auto" or (schema.codec == "ndarray" and not schema.metadata.get("dtype")):
        return encode_by_rows(path, rows)
    try:
        members, metadata = codec_of(schema.codec).encode(rows, schema.metadata)
    except (AttributeError, TypeError, ValueError, RuntimeError) as error:
        kinds = (AttributeError, TypeError, ValueError, RuntimeError)
        kind = next(kind for kind in kinds if isinstance(error, kind))
        raise kind(f"failed to encode {path!r} with {schema.codec}: {error}") from error
    return EncodedField(schema.codec, len(rows), members, metadata)


def encode_by_rows(path: str, values: Sequence[Any]) -> EncodedField:
    """Encode rows as their types ask for; ValueError if nothing can hold them."""
    rows = list(values)
    parts = recursive.split(rows)
    if parts is not None:
        members, metadata = recursive.encode(*parts, partial(_encode_leaf, path))
        return EncodedField(RECURSIVE, len(rows), members, metadata)
    codec, members, metadata = _encode_leaf(path, path, rows, choose_codec(rows))
    return EncodedField(codec, len(rows), members, metadata)


def _encode_leaf(
    field: str, path: str, values: list[Any], decision: Decision
) -> tuple[str, Members, Metadata]:
    where = field + path.removeprefix(recursive.ROOT) if path != field else field
    if not decision.accepted and decision.codec not in LAST_RESORTS:
        raise ValueError(f"unsupported structured non-tensor field {where}: {decision.reason}")
    errors = []
    for codec in dict.fromkeys((decision.codec, *LAST_RESORTS)):
        try:
            return codec, *_CODECS[codec].encode(values, {})
        except (TypeError, ValueError, OverflowError, RuntimeError, RecursionError) as error:
            errors.append(str(error))
    raise ValueError(f"unsupported structured non-tensor field {where}: {errors[0]}")


def decode(name: str, members: Mapping[str, Any], rows: int, metadata: Mapping[str, Any]) -> Any:
    """Return the rows of an encoded field as an array of objects."""
    if name == RECURSIVE:
        values = recursive.decode(members, rows, metadata, codec_of)
    else:
        values = codec_of(name).decode(members, rows, metadata)
    array = np.empty(rows, dtype=object)
    for row, value in enumerate(values):
        array[row] = value
    return array


def select(
    name: str, source: Source, rows: Sequence[int], metadata: Mapping[str, Any]
) -> tuple[Members, Metadata]:
    """Read of a stored field what `decode` needs for some rows."""
    if name == RECURSIVE:
        return recursive.select(source, rows, metadata, codec_of)
    return codec_of(name).select(source, rows, metadata)
