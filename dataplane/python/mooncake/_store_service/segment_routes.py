"""Routes of lent memory.

Invariant: `_lent` has the segments of files and shared-memory objects that are mounted, and no
byte of a file is lent twice.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Sequence

from aiohttp import web

from .fields import (
    FileRange,
    RequestError,
    optional_grace,
    optional_offset,
    optional_text,
    require_memory_path,
    require_segment_ids,
    require_shm_path,
    require_size,
)
from .requests import Handler, RequestWords

logger = logging.getLogger("mooncake.store_service")

MOUNT_FIELDS = ("size", "protocol", "location")
UNMOUNT_FIELDS = ("segment_ids", "grace_period_seconds")


class SegmentRoutes:
    """Lend memory, files and shared-memory objects, and take them back.

    `has_lent` says whether a route has lent anything.
    """

    def __init__(self, store: Any, protocol: str, words: RequestWords) -> None:
        self._store, self._protocol, self._words = store, protocol, words
        self._lent: dict[str, FileRange] = {}
        self.has_lent = False
        self._reconfigure, self._mount = asyncio.Lock(), asyncio.Lock()

    def table(self) -> list[tuple[str, str, str, Handler]]:
        """Return method, path, name in the log and handler of each route."""
        return [
            ("POST", "/api/mount_shm", "MOUNT_SHM", self.handle_mount_shm),
            ("POST", "/api/unmount_shm", "UNMOUNT_SHM", self.handle_unmount_shm),
            ("POST", "/api/mount", "MOUNT", self.handle_mount),
            ("POST", "/api/unmount", "UNMOUNT", self.handle_unmount),
            ("POST", "/api/unmount_local_disk", "UNMOUNT_LOCAL_DISK", self.handle_unmount_disk),
            ("POST", "/api/reconfigure", "RECONFIGURE", self.handle_reconfigure),
        ]

    async def handle_mount(self, request: web.Request) -> web.Response:
        """POST /api/mount {size, protocol, location}: lend `size` more bytes."""
        body = await self._words.read_object(request, *MOUNT_FIELDS)
        size = require_size(body)
        protocol = optional_text(body, "protocol", self._protocol)
        location = optional_text(body, "location", "")
        result = await asyncio.to_thread(
            self._store.allocate_and_mount_segment, size, protocol, location
        )
        if result["ret"] != 0:
            raise RequestError(f"Mount failed, ret={result['ret']}", 500)
        self.has_lent = True
        answer = {"status": "success", "segment_ids": result["segment_ids"]}
        return web.json_response(answer | {"allocated_size": result.get("allocated_size", size)})

    async def handle_unmount(self, request: web.Request) -> web.Response:
        """POST /api/unmount {segment_ids, grace_period_seconds}: withdraw and free."""
        body = await self._words.read_object(request, *UNMOUNT_FIELDS)
        ids, grace = require_segment_ids(body), optional_grace(body)
        code = await asyncio.to_thread(self._store.unmount_and_free_segment, ids, grace)
        if code != 0:
            raise RequestError(f"Unmount failed, ret={code}", 500)
        for segment_id in ids:
            self._lent.pop(segment_id, None)
        return web.json_response({"status": "success"})

    async def _mount_shm(self, path: str, body: dict[str, Any]) -> list[str]:
        wanted = FileRange(path, optional_offset(body), body["size"])
        protocol = optional_text(body, "protocol", self._protocol)
        location = optional_text(body, "location", "")
        async with self._mount:
            if any(wanted.overlaps(lent) for lent in self._lent.values()):
                why = f"{path} is lent already: unmount it first, or use mode prefill"
                raise RequestError(why, 409)
            result = await asyncio.to_thread(
                self._store.mount_segment, path, wanted.size, wanted.offset, protocol, location
            )
            if result["ret"] != 0:
                raise RequestError(f"Mount failed, ret={result['ret']}", 500)
            self.has_lent = True
            self._lent |= dict.fromkeys(result["segment_ids"], wanted)
        return list(result["segment_ids"])

    async def handle_mount_shm(self, request: web.Request) -> web.Response:
        """POST /api/mount_shm {name, size, offset, …}: lend a named shared-memory object."""
        body = await self._words.read_object(request, "name", "offset", *MOUNT_FIELDS)
        ids = await self._mount_shm(require_shm_path(body), body)
        return web.json_response({"status": "success", "segment_ids": ids})

    async def _unmount_each(self, ids: Sequence[str], grace_s: int) -> dict[str, int]:
        """Unmount each segment on its own; returns the codes of those that failed."""
        failed = {}
        for segment_id in ids:
            code = await asyncio.to_thread(self._store.unmount_segment, [segment_id], grace_s)
            if code != 0:
                failed[segment_id] = code
            else:
                self._lent.pop(segment_id, None)
        return failed

    async def handle_unmount_shm(self, request: web.Request) -> web.Response:
        """POST /api/unmount_shm {segment_ids, …}: each on its own, failures are listed."""
        body = await self._words.read_object(request, *UNMOUNT_FIELDS)
        failed = await self._unmount_each(require_segment_ids(body), optional_grace(body))
        if failed:
            why = "Some segments were not unmounted"
            raise RequestError(why, 500, failed=failed, failed_segment_ids=list(failed))
        return web.json_response({"status": "success"})

    async def handle_unmount_disk(self, request: web.Request) -> web.Response:
        """POST /api/unmount_local_disk: withdraw the SSD tier."""
        body: dict[str, Any] = {}
        if getattr(request, "can_read_body", True):
            body = await self._words.read_object(request, "grace_period_seconds")
        else:
            await self._words.read_nothing(request)
        grace = optional_grace(body)
        code = await asyncio.to_thread(self._store.unmount_local_disk_segment, grace)
        if code != 0:
            raise RequestError(f"Unmount failed, ret={code}", 500)
        return web.json_response({"status": "success"})

    async def handle_reconfigure(self, request: web.Request) -> web.Response:
        """POST /api/reconfigure: `decode` lends a file's memory, `prefill` takes it all back.

        `decode` mounts the new segment before it retires the old ones, which stay if it fails. So
        the new one must be other memory: a range that is lent already holds objects.
        """
        body = await self._words.read_object(request, "mode", "path", "offset", *MOUNT_FIELDS)
        mode = optional_text(body, "mode", "").lower()
        if mode not in ("decode", "prefill"):
            raise RequestError("Invalid mode. Use 'decode' or 'prefill'")
        async with self._reconfigure:
            old, ids = list(self._lent), None
            if mode == "decode":
                path = require_memory_path(body)
                try:
                    ids = await self._mount_shm(path, body)
                except RequestError as error:
                    now = "decode" if old else "prefill"
                    kept = "keeping previous decode segments" if old else "rolled back to prefill"
                    raise RequestError(f"{error}; {kept}", error.status, mode=now) from None
            failed = await self._unmount_each(old, 0)
        if ids is None and failed:
            raise RequestError(f"Unmount failed: {failed}", 500, mode="decode")
        if failed:
            # The new segment serves; the old ones are tried again with the next change.
            logger.warning("Old segments were not unmounted: %s", failed)
        answer: dict[str, Any] = {"status": "success", "mode": mode}
        if ids is not None:
            answer["segment_ids"] = [*ids, *failed]
        return web.json_response(answer)
