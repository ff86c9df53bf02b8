"""The manifest of a bundle: which keys hold its metadata and its members.

Invariant: a manifest that passes `check` names keys of its own bundle, and of those it was merged
from, and nothing else: reading or removing it touches no other object of the store.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from .model import RemoteBundleRef

VERSION = 1
LAYOUT = "bundle"


@dataclass(frozen=True)
class BundleKeys:
    """The keys of one bundle."""

    prefix: str
    object_id: str

    @classmethod
    def new(cls, prefix: str, partition: str) -> BundleKeys:
        """Return keys that no other bundle has."""
        return cls(prefix, f"{check_segment(partition, 'partition')}/{uuid.uuid4().hex}")

    @property
    def base(self) -> str:
        """What all keys of the bundle begin with."""
        return f"{self.prefix}/{self.object_id}"

    @property
    def manifest(self) -> str:
        """The key of the manifest."""
        return f"{self.base}/manifest"

    @property
    def meta(self) -> str:
        """The key of the metadata."""
        return f"{self.base}/meta"

    def member(self, name: str) -> str:
        """Return the key of a member's payload."""
        return f"{self.base}/buffer/{check_segment(name, 'buffer name')}"


def check_segment(value: Any, what: str) -> str:
    """Return one part of a key; ValueError if it is empty or has a slash."""
    if not isinstance(value, str) or not value or "/" in value:
        raise ValueError(f"{what} {value!r} must be a string without a slash, and not empty")
    return value


def check_prefix(prefix: Any) -> str:
    """Return the prefix of all keys without slashes at its ends; ValueError if it is empty."""
    if not isinstance(prefix, str) or not prefix.strip("/"):
        raise ValueError(f"key_prefix {prefix!r} must be a string that is not empty")
    return prefix.strip("/")


def decode(blob: bytes) -> dict[str, Any]:
    """Return the manifest in `blob`; ValueError if it is none."""
    if not blob:
        raise ValueError("there is no bundle manifest: its key is not in the store")
    try:
        manifest = json.loads(bytes(blob))
    except ValueError:
        raise ValueError("the bundle manifest is not JSON") from None
    if not isinstance(manifest, dict):
        raise ValueError("the bundle manifest is not a JSON object")
    return manifest


def encode(manifest: Mapping[str, Any]) -> bytes:
    """Return the bytes of a manifest."""
    return json.dumps(manifest, separators=(",", ":")).encode()


def check(manifest: Mapping[str, Any], prefix: str) -> BundleKeys:
    """Return the keys of a manifest's bundle; ValueError if it names anything else."""
    if manifest.get("version") != VERSION or manifest.get("layout") != LAYOUT:
        raise ValueError(f"not a bundle manifest of version {VERSION}")
    object_id = manifest.get("object_id")
    if not isinstance(object_id, str) or not object_id:
        raise ValueError("the bundle manifest has no object_id")
    keys = BundleKeys(prefix, object_id)
    sources = manifest.get("buffer_object_ids", [object_id])
    if not isinstance(sources, list) or not all(isinstance(it, str) and it for it in sources):
        raise ValueError("buffer_object_ids of the bundle manifest must be a list of strings")
    bases = tuple(f"{prefix}/{it}/" for it in sources)
    extra = manifest.get("cleanup_keys", [])
    if not isinstance(extra, list) or not all(_within(key, bases) for key in extra):
        raise ValueError("cleanup_keys of the bundle manifest lie outside its namespace")
    buffers = manifest.get("buffers")
    if not isinstance(buffers, dict):
        raise ValueError("buffers of the bundle manifest must be an object")
    check_payload(manifest.get("meta"), (f"{keys.base}/",))
    for name, payload in buffers.items():
        check_segment(name, "buffer name")
        check_payload(payload, bases)
    return keys


def check_payload(payload: Any, bases: tuple[str, ...]) -> None:
    """Check where the chunks of one payload lie and how many bytes they have; else ValueError."""
    if not isinstance(payload, dict) or not _within(payload.get("key"), bases):
        raise ValueError("a payload of the bundle manifest lies outside its namespace")
    key, total, chunks = payload["key"], payload.get("bytes"), payload.get("chunks")
    if not _is_size(total) or not isinstance(chunks, list):
        raise ValueError(f"payload {key!r} of the bundle manifest has no bytes or chunks")
    seen = set()
    for chunk in chunks:
        name = chunk.get("key") if isinstance(chunk, dict) else None
        if name != key and not _within(name, (f"{key}/",)):
            raise ValueError(f"a chunk of payload {key!r} lies outside its namespace")
        if name in seen or not _is_size(chunk.get("bytes")):
            raise ValueError(f"chunk {name!r} comes twice or has no size")
        seen.add(name)
    if sum(chunk["bytes"] for chunk in chunks) != total:
        raise ValueError(f"the chunks of payload {key!r} do not add up to its {total} bytes")


def payload_keys(payload: Mapping[str, Any]) -> list[str]:
    """Return the keys of one payload's chunks."""
    return [chunk["key"] for chunk in payload["chunks"]]


def all_keys(manifest: Mapping[str, Any], manifest_key: str) -> list[str]:
    """Return every key that goes when the bundle goes; the manifest is the last."""
    payloads = (manifest["meta"], *manifest["buffers"].values())
    chunks = [key for payload in payloads for key in payload_keys(payload)]
    return [*chunks, *manifest.get("cleanup_keys", []), manifest_key]


def sources_of(keys: Iterable[str], prefix: str) -> list[str]:
    """Return the object ids, sorted, of the bundles that these keys belong to."""
    found = set()
    for key in keys:
        if key.startswith(f"{prefix}/"):
            found.add("/".join(key[len(prefix) + 1 :].split("/")[:2]))
    return sorted(found)


def manifest_key_of(ref: RemoteBundleRef | Mapping[str, Any]) -> Any:
    """Return the manifest's key that a reference names, None if it names none."""
    return ref.manifest_key if isinstance(ref, RemoteBundleRef) else ref.get("manifest_key")


def _within(key: Any, bases: tuple[str, ...]) -> bool:
    return isinstance(key, str) and key.startswith(bases) and ".." not in key.split("/")


def _is_size(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
