"""Rows of bytes: text, JSON, msgpack, blobs and images, and lists of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from .columns import (
    Codec,
    Members,
    Metadata,
    Source,
    checked_nulls,
    checked_offsets,
    null_mask,
    offsets_of,
    picked,
    ragged_rows,
)
from .inference import is_image
from .sources import ScatteredPayload, flat_view

PALETTES = ("P", "PA")


def encode_rows(values: list[Any], to_bytes: Callable[[Any], Any]) -> Members:
    """Return the bytes of all rows one after the other, with offsets and nulls."""
    parts = [b"" if value is None else to_bytes(value) for value in values]
    views = [flat_view(part, "row") for part in parts]
    return {
        "data": ScatteredPayload(tuple(views), tuple(parts)),
        "offsets": offsets_of(view.nbytes for view in views),
        "nulls": null_mask(values),
    }


def decode_rows(
    members: Mapping[str, Any], rows: int, from_bytes: Callable[[memoryview, int], Any]
) -> list[Any]:
    """Return the rows, each from its bytes and number."""
    data = flat_view(members["data"], "data")
    offsets = checked_offsets(members["offsets"], rows, data.nbytes)
    nulls = checked_nulls(members["nulls"], rows)
    spans = [data[start:end] for start, end in zip(offsets[:-1], offsets[1:])]
    return [None if nulls[row] else from_bytes(span, row) for row, span in enumerate(spans)]


def select_rows(
    source: Source, rows: Sequence[int], metadata: Mapping[str, Any]
) -> tuple[Members, Metadata]:
    """Read the bytes of some rows."""
    chosen = dict(metadata)
    if metadata.get("media_encodings"):
        chosen["media_encodings"] = picked(metadata["media_encodings"], rows)
    return ragged_rows(source, rows, ("nulls",)), chosen


def _plain(to_bytes: Callable[[Any], Any], from_bytes: Callable[[memoryview], Any]) -> Codec:
    return Codec(
        lambda values, hints: (encode_rows(values, to_bytes), {}),
        lambda members, rows, metadata: decode_rows(members, rows, lambda it, _: from_bytes(it)),
        select_rows,
    )


def _msgpack() -> Any:
    try:
        import msgpack
    except ImportError:
        raise RuntimeError("rows of dicts and lists need msgpack: pip install msgpack") from None
    return msgpack


def _pack(value: Any) -> bytes:
    return _msgpack().packb(value, use_bin_type=True, strict_types=True, default=_as_plain)


def _as_plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return list(value)
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"msgpack cannot hold a {type(value).__name__}")


def _unpack(data: memoryview) -> Any:
    return _msgpack().unpackb(data, raw=False, strict_map_key=False)


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def image_bytes(value: Any) -> tuple[Any, dict[str, Any]]:
    """Return the bytes of an image or blob and how they become one again."""
    if not is_image(value):
        return flat_view(value, "row"), {"kind": "bytes"}
    if value.mode in PALETTES:
        raise ValueError(f"an image of mode {value.mode} has a palette; convert it to RGB first")
    size = list(value.size)
    kind = {"kind": "pil_raw", "mode": value.mode, "size": size, "format": value.format}
    return value.tobytes(), kind


def image_of(data: memoryview, encoding: Mapping[str, Any] | None) -> Any:
    """Return the image or blob of `image_bytes`."""
    if not encoding or encoding.get("kind") != "pil_raw":
        return bytes(data)
    try:
        from PIL import Image
    except ImportError:
        raise ImportError("this row is an image: install pillow to read it") from None
    image = Image.frombytes(encoding["mode"], tuple(encoding["size"]), bytes(data))
    image.format = encoding.get("format")
    return image


def _encode_media(values: list[Any], hints: Mapping[str, Any]) -> tuple[Members, Metadata]:
    pairs = [(b"", {"kind": "null"}) if value is None else image_bytes(value) for value in values]
    members = encode_rows([data for data, _ in pairs], bytes)
    members["nulls"] = null_mask(values)
    kinds = [kind for _, kind in pairs]
    images = any(kind["kind"] == "pil_raw" for kind in kinds)
    return members, {"media_encodings": kinds} if images else {}


def _decode_media(members: Mapping[str, Any], rows: int, metadata: Mapping[str, Any]) -> list[Any]:
    kinds = metadata.get("media_encodings") or [None] * rows
    return decode_rows(members, rows, lambda data, row: image_of(data, kinds[row]))


BYTES = Codec(_encode_media, _decode_media, select_rows)
TEXT = _plain(lambda text: text.encode(), lambda data: str(data, "utf-8"))
JSON = _plain(_json, lambda data: json.loads(bytes(data)))
MSGPACK = _plain(_pack, _unpack)
