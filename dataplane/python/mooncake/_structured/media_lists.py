"""Rows that are lists of images and blobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .byte_rows import image_bytes, image_of
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
    stored_offsets,
)
from .reader import merged
from .sources import ScatteredPayload, flat_view


def encode(values: list[Any], hints: Mapping[str, Any]) -> tuple[Members, Metadata]:
    """Return the bytes of all items, with the items of each row and the bytes of each."""
    lists = [[] if value is None else list(value) for value in values]
    pairs = [image_bytes(item) for items in lists for item in items]
    views = tuple(flat_view(data, "item") for data, _ in pairs)
    members: Members = {
        "data": ScatteredPayload(views),
        "row_offsets": offsets_of(len(items) for items in lists),
        "byte_offsets": offsets_of(view.nbytes for view in views),
        "nulls": null_mask(values),
    }
    return members, {"media_encodings": [kind for _, kind in pairs]}


def decode(members: Mapping[str, Any], rows: int, metadata: Mapping[str, Any]) -> list[Any]:
    """Return the rows."""
    data = flat_view(members["data"], "data")
    ends = stored_offsets(members["byte_offsets"], data.nbytes)
    firsts = checked_offsets(members["row_offsets"], rows, len(ends) - 1)
    nulls = checked_nulls(members["nulls"], rows)
    kinds = metadata.get("media_encodings") or [None] * (len(ends) - 1)
    items = [image_of(data[ends[at] : ends[at + 1]], kinds[at]) for at in range(len(ends) - 1)]
    return [None if nulls[row] else items[firsts[row] : firsts[row + 1]] for row in range(rows)]


def select(
    source: Source, rows: Sequence[int], metadata: Mapping[str, Any]
) -> tuple[Members, Metadata]:
    """Read the items of some rows."""
    ends = stored_offsets(source.whole("byte_offsets"))
    firsts = stored_offsets(source.whole("row_offsets"), len(ends) - 1)
    items = [at for row in rows for at in range(firsts[row], firsts[row + 1])]
    lengths = [int(ends[at + 1] - ends[at]) for at in items]
    starts = [int(ends[at]) for at in items]
    members: Members = {
        "data": source.elements("data", merged(zip(starts, lengths))),
        "row_offsets": offsets_of(int(firsts[row + 1] - firsts[row]) for row in rows),
        "byte_offsets": offsets_of(lengths),
        "nulls": source.rows("nulls", rows),
    }
    return members, dict(metadata, media_encodings=picked(metadata.get("media_encodings"), items))


MEDIA_LISTS = Codec(encode, decode, select)
