"""REST service over one store client: `python -m mooncake.mooncake_store_service`.

It lends memory to the cluster and answers `/api/*`. Store calls run in threads, so a slow call
never holds up the event loop. It has no authentication: with `--host` it listens where only friends
can reach it.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
import sys
import time
from functools import cached_property
from typing import Any, Callable, Mapping, Sequence

from aiohttp import web

from ._store_service.arguments import (
    DEFAULT_DRAIN_S,
    DEFAULT_HOST,
    DEFAULT_MAX_WAIT_S,
    DEFAULT_PORT,
    config_of,
    load_config,
    parse_arguments,
)
from ._store_service.fields import shm_path as _shm_name_to_path  # noqa: F401
from ._store_service.object_routes import ObjectRoutes
from ._store_service.requests import MAX_BODY_BYTES, BodyBudget, RequestWords, guarded
from ._store_service.segment_routes import SegmentRoutes
from ._store_service.stop_drain import StopDrain
from .mooncake_config import MooncakeConfig
from .store import MooncakeDistributedStore

logger = logging.getLogger("mooncake.store_service")

SETUP_RETRY_S = 1.0


class MooncakeStoreService:
    """One store client and the HTTP routes that call it.

    `config_path` is a file, a `MooncakeConfig`, or None for the environment; `cli_config` has
    values that come before those.
    """

    def __init__(
        self,
        config_path: str | os.PathLike[str] | MooncakeConfig | None = None,
        cli_config: Mapping[str, Any] | None = None,
        *,
        store: Any = None,
        host: str = DEFAULT_HOST,
        port: int = DEFAULT_PORT,
        drain: StopDrain | None = None,
    ) -> None:
        config = config_of(config_path, dict(cli_config or {}))
        self.config = config
        self.store = MooncakeDistributedStore() if store is None else store
        self.host = host
        self.port = port
        self.drain = drain
        self.bodies = BodyBudget()
        self._runner: web.AppRunner | None = None

    @cached_property
    def _words(self) -> RequestWords:
        return RequestWords(getattr(self.config, "tenant_id", ""))

    @cached_property
    def _objects(self) -> ObjectRoutes:
        return ObjectRoutes(self.store, self._words)

    @cached_property
    def _segments(self) -> SegmentRoutes:
        return SegmentRoutes(self.store, self.config.protocol, self._words)

    def __getattr__(self, name: str) -> Any:
        """Return the handler of a route under Mooncake's name, for applications of the caller's own."""
        if name.startswith("handle_"):
            for _, _, title, handler in (*self._objects.table(), *self._segments.table()):
                if name == f"handle_{title.lower()}":
                    return guarded(title, handler)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def setup_arguments(self) -> dict[str, Any]:
        """Return the dict that `setup` is called with."""
        config = self.config
        return {
            "local_hostname": config.local_hostname,
            "metadata_server": config.metadata_server,
            "global_segment_size": config.global_segment_size,
            "local_buffer_size": config.local_buffer_size,
            "protocol": config.protocol,
            "rdma_devices": config.device_name,
            "master_server_addr": config.master_server_address,
            "enable_ssd_offload": config.enable_ssd_offload,
            "ssd_offload_path": config.ssd_offload_path,
            "ssd_key_file": config.ssd_key_file,
            "tenant_id": config.tenant_id,
            "enable_client_http_server": config.enable_client_http_server,
            "client_http_port": config.client_http_port,
        }

    async def start_store(self, max_wait_s: float = DEFAULT_MAX_WAIT_S) -> bool:
        """Try `setup` once a second until it works; False when `max_wait_s` seconds are over."""
        started = time.monotonic()
        attempt = 0
        while True:
            attempt += 1
            elapsed = time.monotonic() - started
            logger.info("Store setup, attempt %d, %.1f of %g s", attempt, elapsed, max_wait_s)
            code = await asyncio.to_thread(self.store.setup, self.setup_arguments())
            if code == 0:
                logger.info("Store service started on %s", self.store.get_hostname())
                return True
            remaining = max_wait_s - (time.monotonic() - started)
            if remaining <= 0:
                logger.error("Store setup failed with code %d, giving up", code)
                return False
            logger.warning("Store setup failed with code %d, trying again", code)
            await asyncio.sleep(min(SETUP_RETRY_S, remaining))

    async def start_store_service(
        self, max_wait_time: float = DEFAULT_MAX_WAIT_S, shutdown_event: asyncio.Event | None = None
    ) -> bool:
        """As `start_store`, under Mooncake's name; False also when the event is set while it tries."""
        starting = asyncio.create_task(self.start_store(max_wait_time))
        if shutdown_event is None:
            return await starting
        stopping = asyncio.create_task(shutdown_event.wait())
        await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
        is_stopped = shutdown_event.is_set()
        for task in (starting, stopping):
            if is_stopped or task is stopping:
                task.cancel()
        return False if is_stopped else await starting

    async def start_http_service(self, port: int = DEFAULT_PORT) -> bool:
        """Listen on a port, as Mooncake's method; raise `OSError` if it is taken."""
        self.port = port
        await self.start_http()
        return True

    def application(self) -> web.Application:
        """Return the HTTP application with all routes."""
        app = web.Application(client_max_size=MAX_BODY_BYTES)
        tables = (*self._objects.table(), *self._segments.table())
        for method, path, name, handler in tables:
            app.router.add_route(method, path, guarded(name, handler, self.bodies))
        return app

    async def start_http(self) -> None:
        """Listen; raise `OSError` if the port is taken."""
        self._runner = web.AppRunner(self.application())
        await self._runner.setup()
        await web.TCPSite(self._runner, self.host, self.port).start()
        logger.info("REST API started on %s port %d", self.host, self.port)

    async def stop(self) -> None:
        """Stop listening, drain if wanted, close the store: its memory leaves the cluster."""
        runner, self._runner = self._runner, None
        try:
            if runner is not None:
                await runner.cleanup()
                await self._drain()
        finally:
            await asyncio.to_thread(self.store.close)
        logger.info("Store service stopped")

    async def _drain(self) -> None:
        lends = self.config.global_segment_size > 0 or self._segments.has_lent
        if self.drain is not None and lends:
            await self.drain.run(self.config.master_server_address, self.store)


def drain_of(options: argparse.Namespace, number: signal.Signals) -> StopDrain | None:
    """Return what a stop by this signal does for the objects here; None drops them."""
    is_asked = options.drain_on_stop is not None
    if not is_asked and number != signal.SIGTERM:
        return None
    seconds = options.drain_on_stop if is_asked else DEFAULT_DRAIN_S
    if seconds <= 0:
        return None
    return StopDrain(seconds, options.master_metrics_port, is_asked)


def _install_shutdown_signal_handlers(
    loop: asyncio.AbstractEventLoop,
    shutdown_event: asyncio.Event,
    noticed: Callable[[signal.Signals], None] = lambda _number: None,
) -> None:
    """Set the event at SIGINT and SIGTERM, after `noticed` has heard which one it was."""

    def stop(number: signal.Signals) -> None:
        noticed(number)
        shutdown_event.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop, number)


async def serve(options: argparse.Namespace) -> int:
    """Run the service until SIGINT or SIGTERM; returns the exit status."""
    config = load_config(options.config, options.define)
    service = MooncakeStoreService(config, host=options.host, port=options.port)
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()

    def noticed(number: signal.Signals) -> None:
        service.drain = drain_of(options, number)

    _install_shutdown_signal_handlers(loop, stopping, noticed)
    starting = asyncio.create_task(service.start_store(options.max_wait_time))
    interrupted = asyncio.create_task(stopping.wait())
    try:
        await asyncio.wait({starting, interrupted}, return_when=asyncio.FIRST_COMPLETED)
        if stopping.is_set():
            return 0
        if not starting.result():
            return 1
        await service.start_http()
        await stopping.wait()
        return 0
    finally:
        # Another signal does not wait for the end.
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
        starting.cancel()
        interrupted.cancel()
        await service.stop()


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point of `python -m mooncake.mooncake_store_service` and `mc_store_rest_server`."""
    options = parse_arguments(arguments)
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s - %(name)s - %(levelname)s - %(message)s"
    )
    try:
        sys.exit(asyncio.run(serve(options)))
    except (OSError, ValueError) as error:
        sys.exit(f"mooncake_store_service: {error}")


if __name__ == "__main__":
    main()
