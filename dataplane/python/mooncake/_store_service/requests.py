"""What requests say, and the frame around each route.

Invariant: bodies that are in memory at one time have bounded bytes, every route answers, and none
does a part of what was asked: a word that it does not know refuses the request.
"""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import contextmanager, nullcontext
from typing import Any, Awaitable, Callable, Iterator

from aiohttp import web

from .fields import DEFAULT_TENANT, RequestError

logger = logging.getLogger("mooncake.store_service")

MAX_BODY_BYTES = 100 * 1024 * 1024
# Bodies of requests in progress, together; small ones do not count.
MAX_BODIES_BYTES = 256 * 1024 * 1024
SMALL_BODY_BYTES = 64 * 1024
BODY_DEADLINE_S = 60.0

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class BodyBudget:
    """Bytes that the bodies of all requests in progress may have together."""

    def __init__(self, max_bytes: int = MAX_BODIES_BYTES) -> None:
        self.max_bytes = max_bytes
        self.used_bytes = 0

    @contextmanager
    def room_for(self, request: web.Request) -> Iterator[None]:
        """Hold room for the body of a request; a body of unknown length counts as the largest."""
        wanted = request.content_length if request.body_exists else 0
        if wanted is None:
            wanted = MAX_BODY_BYTES
        if wanted <= SMALL_BODY_BYTES:
            wanted = 0
        if self.used_bytes + wanted > self.max_bytes:
            raise RequestError("Too many large requests at this moment, try again", 503)
        self.used_bytes += wanted
        try:
            yield
        finally:
            self.used_bytes -= wanted


class RequestWords:
    """Reads what requests say to the service of one tenant."""

    def __init__(self, tenant_id: str = DEFAULT_TENANT) -> None:
        self._tenant_id = tenant_id or DEFAULT_TENANT

    async def read_object(self, request: web.Request, *fields: str) -> dict[str, Any]:
        """Return the JSON object in the body, which has no other fields than these."""
        self._check_query(request)
        try:
            body = await asyncio.wait_for(request.json(), BODY_DEADLINE_S)
        except asyncio.TimeoutError:
            raise RequestError("The body did not arrive in time", 408) from None
        except (ValueError, LookupError, RecursionError) as error:
            raise RequestError(f"The body must be a JSON object, but it is none: {error}") from None
        if not isinstance(body, dict):
            raise RequestError("The body must be a JSON object")
        for field, value in body.items():
            self._check_word("body", field, value, fields)
        return body

    async def read_nothing(self, request: web.Request) -> None:
        """Check a request of a route that needs no body; one that comes must mean nothing else."""
        if getattr(request, "can_read_body", False):
            await self.read_object(request)
        else:
            self._check_query(request)

    def _check_query(self, request: web.Request) -> None:
        for name, value in getattr(request, "query", {}).items():
            self._check_word("query", name, value, ())

    def _check_word(self, place: str, name: str, value: Any, known: tuple[str, ...]) -> None:
        if name in known:
            return
        if name != "tenant_id":
            hint = "; a ? in a key is written %3F" if place == "query" else ""
            raise RequestError(
                f"This route does not know {name!r} in the {place}: it takes "
                f"{', '.join((*known, 'tenant_id'))}{hint}"
            )
        if not isinstance(value, str) or not value:
            raise RequestError(f"tenant_id must be the name of a tenant, here {self._tenant_id!r}")
        if value != self._tenant_id:
            raise RequestError(
                f"This service has the objects of tenant {self._tenant_id!r} alone: for those of "
                f"{value!r} ask a service whose configuration has that tenant_id",
                403,
            )


def guarded(name: str, handler: Handler, bodies: BodyBudget | None = None) -> Handler:
    """Wrap a route: log its time, bound its body, turn every failure into a JSON error."""

    async def route(request: web.Request) -> web.StreamResponse:
        started = time.monotonic()
        try:
            with nullcontext() if bodies is None else bodies.room_for(request):
                return await handler(request)
        except RequestError as error:
            return error_response(str(error), error.status, **error.more)
        except (web.HTTPException, asyncio.CancelledError):
            raise
        except Exception as error:  # a route must answer whatever happens inside
            logger.exception("%s failed", name)
            return error_response(str(error), 500)
        finally:
            elapsed_ms = (time.monotonic() - started) * 1e3
            logger.info("%s operation completed in %.2f ms", name, elapsed_ms)

    return route


def error_response(message: str, status: int, **more: Any) -> web.Response:
    """Return the JSON error every route uses."""
    return web.json_response({"error": message, **more}, status=status)
