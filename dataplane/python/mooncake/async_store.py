"""The store client for asyncio: every method of the plain class again as `async_<name>`.

Each call runs in a thread of its own small pool, so the event loop never waits for the network.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable

from .store import MooncakeDistributedStore

__all__ = ["MooncakeDistributedStoreAsync"]

DEFAULT_WORKER_COUNT = 8


class MooncakeDistributedStoreAsync(MooncakeDistributedStore):
    """`MooncakeDistributedStore` plus awaitable `async_*` forms with the same arguments.

    Buffers whose addresses are passed must stay alive and untouched until the call is awaited.
    A cancelled await does not stop the call in its thread.
    """

    def __init__(self, max_workers: int = DEFAULT_WORKER_COUNT) -> None:
        super().__init__()
        self._executor = ThreadPoolExecutor(
            max_workers=max_workers, thread_name_prefix="mooncake-async"
        )

    def __new__(cls, *_args: Any, **_kwargs: Any) -> "MooncakeDistributedStoreAsync":
        return super().__new__(cls)

    async def _run(self, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(
            self._executor, functools.partial(call, *args, **kwargs)
        )

    async def async_close(self) -> int:
        """Close the store and stop the pool's threads; returns what `close()` returns."""
        code = await self._run(self.close)
        self._executor.shutdown(wait=False)
        return code


def _awaitable(name: str, plain: Callable[..., Any]) -> Callable[..., Any]:
    async def method(self: MooncakeDistributedStoreAsync, *args: Any, **kwargs: Any) -> Any:
        return await self._run(getattr(self, name), *args, **kwargs)

    method.__name__ = method.__qualname__ = f"async_{name}"
    method.__doc__ = f"Awaitable form of `{name}`.\n\n{inspect.getdoc(plain) or ''}"
    # So that its signature has the keywords of the plain call.
    method.__wrapped__ = plain  # type: ignore[attr-defined]
    return method


for _name in dir(MooncakeDistributedStore):
    _plain = getattr(MooncakeDistributedStore, _name)
    if not _name.startswith("_") and callable(_plain) and _name != "close":
        setattr(MooncakeDistributedStoreAsync, f"async_{_name}", _awaitable(_name, _plain))
del _name, _plain
