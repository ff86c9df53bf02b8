"""REST service over one store client: `python -m mooncake.mooncake_store_service`.

It lends memory to the cluster and answers `/api/*`. Store calls run in threads, so a slow call
never holds up the event loop. It has no authentication: with `--host` it listens where only friends
can reach it.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import signal
import sys
import time
from typing import Any, Sequence

from aiohttp import web

from ._store_service.arguments import (
    DEFAULT_DRAIN_S,
    DEFAULT_HOST,
    DEFAULT_MAX_WAIT_S,
    DEFAULT_PORT,
    load_config,
    parse_arguments,
)
from ._store_service.object_routes import ObjectRoutes
from ._store_service.requests import MAX_BODY_BYTES, BodyBudget, guarded
from ._store_service.segment_routes import SegmentRoutes
from ._store_service.stop_drain import StopDrain
from .mooncake_config import MooncakeConfig
from .store import MooncakeDistributedStore

logger = logging.getLogger("mooncake.store_service")

SETUP_RETRY_S = 1.0


class MooncakeStoreService:
    """One store client and the HTTP routes that call it."""

    def __init__(
        self,
        config: MooncakeConfig,
        store: Any = None,
        host: str = DEFAULT_HOST,
        port: int = DEFAULT_PORT,
        drain: StopDrain | None = None,
    ) -> None:
        self.config = config
        self.store = MooncakeDistributedStore() if store is None else store
        self.host = host
        self.port = port
        self.drain = drain
        self.bodies = BodyBudget()
        self._objects = ObjectRoutes(self.store)
        self._segments = SegmentRoutes(self.store, config.protocol)
        self._runner: web.AppRunner | None = None

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
            await self.drain.run(self.config.master_server_address, self.store.get_hostname())


def drain_of(options: argparse.Namespace, number: signal.Signals) -> StopDrain | None:
    """Return what a stop by this signal does for the objects here; None drops them."""
    is_asked = options.drain_on_stop is not None
    if not is_asked and number != signal.SIGTERM:
        return None
    seconds = options.drain_on_stop if is_asked else DEFAULT_DRAIN_S
    if seconds <= 0:
        return None
    return StopDrain(seconds, options.master_metrics_port, is_asked)


async def serve(options: argparse.Namespace) -> int:
    """Run the service until SIGINT or SIGTERM; returns the exit status."""
    config = load_config(options.config, options.define)
    service = MooncakeStoreService(config, host=options.host, port=options.port)
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()

    def stop(number: signal.Signals) -> None:
        service.drain = drain_of(options, number)
        stopping.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop, number)
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
