"""Routes of objects."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from aiohttp import web

from .fields import RequestError
from .requests import Handler, RequestWords

logger = logging.getLogger("mooncake.store_service")

# Why an object is not removed, by code.
REFUSED_REMOVALS = {
    -600: "the key is empty, too long or begins with U+0001",
    -703: "the object is still being written, try again",
    -704: "there is no such key",
    -706: "a reader has a lease on it for some seconds, try again",
    -900: "the master does not answer",
}


class ObjectRoutes:
    """Put, get, look for and remove objects."""

    def __init__(self, store: Any, words: RequestWords) -> None:
        self._store, self._words = store, words

    def table(self) -> list[tuple[str, str, str, Handler]]:
        """Return method, path, name in the log and handler of each route."""
        return [
            ("PUT", "/api/put", "PUT", self.handle_put),
            ("GET", "/api/get/{key:.+}", "GET", self.handle_get),
            ("GET", "/api/exist/{key:.+}", "EXIST", self.handle_exist),
            ("DELETE", "/api/remove/{key:.+}", "REMOVE", self.handle_remove),
            ("DELETE", "/api/remove_all", "REMOVE_ALL", self.handle_remove_all),
        ]

    async def handle_put(self, request: web.Request) -> web.Response:
        """PUT /api/put {key, value}: store the UTF-8 text `value`."""
        body = await self._words.read_object(request, "key", "value")
        key, value = body.get("key"), body.get("value")
        if not key or not value:
            raise RequestError("Missing key or value")
        if not isinstance(key, str) or not isinstance(value, str):
            raise RequestError("key and value must be strings")
        code = await asyncio.to_thread(self._store.put, *_encoded(key, value))
        if code != 0:
            raise RequestError("PUT operation failed", 500)
        return web.json_response({"status": "success"})

    async def handle_get(self, request: web.Request) -> web.Response:
        """GET /api/get/{key}: the bytes as they are; 404 when there is no such key."""
        await self._words.read_nothing(request)
        key = request.match_info["key"]
        value = await asyncio.to_thread(self._store.get, key)
        # No bytes are an empty object, a miss, or a read that failed.
        if not value and not await self._exists(key):
            raise RequestError("Key not found", 404)
        return web.Response(body=value, content_type="application/octet-stream")

    async def handle_exist(self, request: web.Request) -> web.Response:
        """GET /api/exist/{key}: `{"exists": bool}`; 500 when the master cannot be asked."""
        await self._words.read_nothing(request)
        return web.json_response({"exists": await self._exists(request.match_info["key"])})

    async def _exists(self, key: str) -> bool:
        code = await asyncio.to_thread(self._store.is_exist, key)
        if code < 0:
            logger.error("The master cannot be asked for a key, ret=%d", code)
            raise RequestError("Exist check failed", 500)
        return code == 1

    async def handle_remove(self, request: web.Request) -> web.Response:
        """DELETE /api/remove/{key}; 500 and the reason when it is unknown or leased."""
        await self._words.read_nothing(request)
        code = await asyncio.to_thread(self._store.remove, request.match_info["key"])
        if code != 0:
            reason = REFUSED_REMOVALS.get(code, "the log of this service says why")
            raise RequestError("Remove operation failed", 500, code=code, reason=reason)
        return web.json_response({"status": "success"})

    async def handle_remove_all(self, request: web.Request) -> web.Response:
        """DELETE /api/remove_all: leased objects stay."""
        await self._words.read_nothing(request)
        count = await asyncio.to_thread(self._store.remove_all)
        if count < 0:
            raise RequestError("RemoveAll operation failed", 500)
        return web.json_response({"status": f"success removed {count} keys"})


def _encoded(key: str, value: str) -> tuple[str, bytes]:
    """Return key and bytes of the value; half of a UTF-16 pair has no bytes."""
    try:
        key.encode()
        return key, value.encode()
    except UnicodeEncodeError as error:
        raise RequestError(f"key and value must be text that UTF-8 can hold: {error}") from None
