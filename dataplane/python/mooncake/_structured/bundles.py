"""Bundles of payloads: put, merge, read their manifest, remove.

Invariant: the manifest is put last, so a bundle that can be found is complete.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from . import manifest as manifests
from .model import BundleTransferPolicy, RemoteBundleRef
from .removal import remove_keys
from .sources import ScatteredPayload, flat_view
from .writer import PayloadWriter

# Puts one member under a key and returns its entry of the manifest.
PutMember = Callable[[str, Any, int, BundleTransferPolicy, Any], dict[str, Any]]
AnyRef = RemoteBundleRef | Mapping[str, Any]


class Bundles:
    """The bundles below one prefix of a store."""

    def __init__(self, store: Any, writer: PayloadWriter, prefix: str) -> None:
        self._store, self._writer = store, writer
        self.prefix = manifests.check_prefix(prefix)

    def put(
        self,
        meta: Any,
        members: Mapping[str, Any],
        put_member: PutMember,
        partition: str,
        chunk_bytes: int,
        policy: BundleTransferPolicy,
        config: Any,
    ) -> RemoteBundleRef:
        """Put metadata and members as a new bundle."""
        keys = manifests.BundleKeys.new(self.prefix, partition)
        names = {name: keys.member(name) for name in members}
        written: list[str] = []
        try:
            buffers: dict[str, Any] = {}
            meta_entry = self._put_meta(keys.meta, meta, chunk_bytes, config)
            written += manifests.payload_keys(meta_entry)
            for name, value in members.items():
                buffers[name] = put_member(names[name], value, chunk_bytes, policy, config)
                written += manifests.payload_keys(buffers[name])
            return self._put_manifest(keys, meta_entry, buffers, {}, config)
        except BaseException:
            remove_keys(self._store, written, strict=False)
            raise

    def merge(
        self,
        parts: Sequence[AnyRef],
        meta: Any,
        partition: str,
        chunk_bytes: int,
        config: Any,
    ) -> RemoteBundleRef:
        """Put a bundle that has the members of several others, which it owns from then on."""
        buffers: dict[str, Any] = {}
        owned: list[str] = []
        for part in parts:
            found = self.resolve(part)
            both = sorted(set(buffers) & set(found["buffers"]))
            if both:
                raise ValueError(f"members {both} exist already")
            buffers |= found["buffers"]
            owned += [*found.get("cleanup_keys", []), *self._own_keys(found)]
        keys = manifests.BundleKeys.new(self.prefix, partition)
        meta_entry = self._put_meta(keys.meta, meta, chunk_bytes, config)
        try:
            payloads = [key for entry in buffers.values() for key in manifests.payload_keys(entry)]
            extra = {
                "buffer_object_ids": manifests.sources_of([*payloads, *owned], self.prefix),
                "cleanup_keys": list(dict.fromkeys(owned)),
            }
            return self._put_manifest(keys, meta_entry, buffers, extra, config)
        except BaseException:
            remove_keys(self._store, manifests.payload_keys(meta_entry), strict=False)
            raise

    def resolve(self, ref: AnyRef) -> dict[str, Any]:
        """Return the checked manifest of a reference, from the store if it has none with it."""
        key = manifests.manifest_key_of(ref)
        given = ref.manifest if isinstance(ref, RemoteBundleRef) else ref.get("manifest")
        if not given:
            if not isinstance(key, str):
                raise ValueError("a bundle reference needs its manifest_key")
            given = manifests.decode(self._store.get(key))
        keys = manifests.check(given, self.prefix)
        if key is not None and key != keys.manifest:
            raise ValueError(f"manifest_key {key!r} is not that of object {keys.object_id!r}")
        return dict(given)

    def remove(self, ref: AnyRef) -> None:
        """Remove all keys of a bundle; RuntimeError if one stays."""
        remove_keys(self._store, self._all_keys(ref), strict=True)

    def discard(self, ref: AnyRef) -> None:
        """Remove the keys of a bundle as far as they can be removed."""
        remove_keys(self._store, self._all_keys(ref), strict=False)

    def drop_wrapping(self, ref: AnyRef) -> None:
        """Remove manifest and metadata of a bundle whose members a merged one owns."""
        remove_keys(self._store, self._own_keys(self.resolve(ref)), strict=False)

    def _all_keys(self, ref: AnyRef) -> list[str]:
        found = self.resolve(ref)
        return manifests.all_keys(found, manifests.check(found, self.prefix).manifest)

    def _own_keys(self, found: Mapping[str, Any]) -> list[str]:
        keys = manifests.check(found, self.prefix)
        return [keys.manifest, *manifests.payload_keys(found["meta"])]

    def _put_meta(self, key: str, meta: Any, chunk_bytes: int, config: Any) -> dict[str, Any]:
        payload = ScatteredPayload((flat_view(meta, "meta"),))
        policy = BundleTransferPolicy(copy_mode="copy")
        return self._writer.put(key, payload, chunk_bytes, policy, config)

    def _put_manifest(
        self,
        keys: manifests.BundleKeys,
        meta: dict[str, Any],
        buffers: dict[str, Any],
        extra: dict[str, Any],
        config: Any,
    ) -> RemoteBundleRef:
        manifest = {
            "version": manifests.VERSION,
            "layout": manifests.LAYOUT,
            "object_id": keys.object_id,
            "meta": meta,
            "buffers": buffers,
            **extra,
        }
        manifests.check(manifest, self.prefix)
        self._writer.put_bytes(keys.manifest, manifests.encode(manifest), config)
        return RemoteBundleRef(keys.manifest, manifest)
