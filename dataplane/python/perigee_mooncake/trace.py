"""What calls belong to: a `traceparent` of W3C, so that one request can be followed through the cluster.

    from perigee_mooncake import trace

    with trace.use(request.headers.get("traceparent")):
        store.get(key)

Without it the current span of OpenTelemetry is taken, where a program has loaded `opentelemetry`. A value that is no
`traceparent` counts as none. `perigee trace ID` shows where the time of a call went.
"""

from __future__ import annotations

import contextlib
import contextvars
import sys

_current: contextvars.ContextVar[str | None] = contextvars.ContextVar("perigee_traceparent", default=None)


@contextlib.contextmanager
def use(traceparent: str | None):
    """Let the calls within belong to a `traceparent`; None for none. Tasks and `to_thread` take it along."""
    token = _current.set(traceparent)
    try:
        yield
    finally:
        _current.reset(token)


def current() -> str | None:
    """The `traceparent` that calls made now belong to, or None."""
    return _current.get() or _of_opentelemetry()


def _of_opentelemetry() -> str | None:
    """The current span of a program that has loaded OpenTelemetry; nothing is imported for it."""
    api = sys.modules.get("opentelemetry.trace")
    if api is None:
        return None
    span = api.get_current_span().get_span_context()
    if not span.is_valid:
        return None
    return f"00-{span.trace_id:032x}-{span.span_id:016x}-{int(span.trace_flags) & 1:02x}"
