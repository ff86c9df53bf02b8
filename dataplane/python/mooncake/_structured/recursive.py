"""Rows of dicts and lists that hold arrays, tensors or blobs: each leaf is a column of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from .columns import Codec, Members, Metadata, Source, Within, checked_nulls, within
from .inference import MISSING, Decision, Leaf, Node, child_path, infer_structure

# Leaves that are better stored as they are than inside one encoded row.
NATIVE = frozenset(("ragged_tensor", "bytes_ragged", "media_bytes", "media_list_ragged"))
ROOT = "row"

FindCodec = Callable[[str], Codec]
EncodeLeaf = Callable[[str, list[Any], Decision], tuple[str, Members, Metadata]]


def split(values: list[Any]) -> tuple[list[Leaf], list[Node]] | None:
    """Return leaves and nodes of rows, None if they are better encoded whole."""
    leaves: list[Leaf] = []
    nodes: list[Node] = []
    infer_structure(ROOT, values, leaves, nodes)
    return (leaves, nodes) if nodes and any(_is_native(leaf) for leaf in leaves) else None


def _is_native(leaf: Leaf) -> bool:
    if leaf.decision.codec == "typed_ragged":
        return any(isinstance(value, np.ndarray) for value in leaf.values)
    return leaf.decision.accepted and leaf.decision.codec in NATIVE


def encode(
    leaves: Sequence[Leaf], nodes: Sequence[Node], encode_leaf: EncodeLeaf
) -> tuple[Members, Metadata]:
    """Return the columns of all nodes and leaves."""
    members: Members = {}
    node_specs, leaf_specs = [], []
    for number, node in enumerate(nodes):
        columns = {"missing": np.asarray(node.missing), "row_mask": np.asarray(node.row_mask)}
        if node.lengths is not None:
            columns["lengths"] = np.asarray(node.lengths, dtype=np.int64)
        spec = {"id": number, "path": node.path, "node_type": node.node_type}
        spec["children"] = list(node.children)
        for name, column in columns.items():
            members[f"node.{number}.{name}"] = column
            spec[f"{name}_payload"] = f"node.{number}.{name}"
        node_specs.append(spec)
    for number, leaf in enumerate(leaves):
        missing = [value is MISSING for value in leaf.values]
        values = [None if value is MISSING else value for value in leaf.values]
        codec, columns, metadata = encode_leaf(leaf.path, values, leaf.decision)
        columns = {**columns, "missing": np.asarray(missing)}
        names = {name: f"leaf.{number}.{name}" for name in columns}
        members |= {names[name]: column for name, column in columns.items()}
        spec = {"id": number, "path": leaf.path, "codec": codec, "rows": len(values)}
        leaf_specs.append(spec | {"metadata": metadata, "payload_members": names})
    root = (nodes[0] if nodes else leaves[0]).path
    return members, {
        "structure_version": 1,
        "root_path": root,
        "nodes": node_specs,
        "leaves": leaf_specs,
    }


def decode(
    members: Mapping[str, Any], rows: int, metadata: Mapping[str, Any], codec_of: FindCodec
) -> list[Any]:
    """Return the rows as they were; tuples come back as lists."""
    columns: dict[str, list[Any]] = {}
    for spec in metadata["leaves"]:
        parts = within(members, f"leaf.{spec['id']}.")
        missing = checked_nulls(parts["missing"], rows)
        values = codec_of(spec["codec"]).decode(parts, rows, spec["metadata"])
        columns[spec["path"]] = [MISSING if gone else it for it, gone in zip(values, missing)]
    # A node stands before those below it.
    for spec in reversed(metadata["nodes"]):
        columns[spec["path"]] = _joined(within(members, f"node.{spec['id']}."), rows, spec, columns)
    return columns[metadata["root_path"]]


def _joined(
    parts: Members, rows: int, spec: Mapping[str, Any], columns: Mapping[str, list[Any]]
) -> list[Any]:
    kind, children = spec["node_type"], spec["children"]
    missing = checked_nulls(parts["missing"], rows)
    mask = checked_nulls(parts["row_mask"], rows)
    below = [columns[child_path(spec["path"], kind, child)] for child in children]
    values: list[Any] = []
    for row in range(rows):
        if not mask[row]:
            values.append(MISSING if missing[row] else None)
        elif kind == "list":
            values.append([column[row] for column in below[: int(parts["lengths"][row])]])
        else:
            pairs = ((child, column[row]) for child, column in zip(children, below))
            values.append({child: value for child, value in pairs if value is not MISSING})
    return values


def select(
    source: Source, rows: Sequence[int], metadata: Mapping[str, Any], codec_of: FindCodec
) -> tuple[Members, Metadata]:
    """Read the columns of some rows."""
    members: Members = {}
    leaf_specs = []
    for spec in metadata["nodes"]:
        names = [name for key, name in spec.items() if key.endswith("_payload")]
        members |= {name: source.rows(name, rows) for name in names}
    for spec in metadata["leaves"]:
        prefix = f"leaf.{spec['id']}."
        part = Within(source, prefix)
        columns, chosen = codec_of(spec["codec"]).select(part, rows, spec["metadata"])
        columns["missing"] = part.rows("missing", rows)
        members |= {prefix + name: column for name, column in columns.items()}
        leaf_specs.append({**spec, "rows": len(rows), "metadata": chosen})
    return members, dict(metadata, leaves=leaf_specs)
