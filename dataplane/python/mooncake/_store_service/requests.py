"""Bodies of requests and the frame around each route.

Invariant: bodies that are in memory at one time have bounded bytes, and every route answers.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from contextlib import contextmanager, nullcontext
from typing import Any, Awaitable, Callable, Iterator

from aiohttp import web

from .fields import RequestError

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


async def read_object(request: web.Request) -> dict[str, Any]:
    """Return the JSON object in the body; text that is no JSON answers 500 as clients expect."""
    try:
        body = await asyncio.wait_for(request.json(), BODY_DEADLINE_S)
    except asyncio.TimeoutError:
        raise RequestError("The body did not arrive in time", 408) from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise RequestError(str(error), 500) from None
    if not isinstance(body, dict):
        raise RequestError("The body must be a JSON object")
    return body


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
