"""REST service over one store client: `python -m mooncake.mooncake_store_service`.

It lends memory to the cluster and answers `/api/*`. Store calls run in threads, so a slow call
never holds up the event loop. It has no authentication: with `--host` it listens where only friends
can reach it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import signal
import sys
import time
from asyncio.subprocess import PIPE, STDOUT
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Any, Awaitable, Callable, Iterator, Sequence

from aiohttp import web
from perigee_mooncake.program import program_path

from . import __version__
from .mooncake_config import MooncakeConfig, parse_port
from .store import MooncakeDistributedStore

logger = logging.getLogger("mooncake.store_service")

DEFAULT_HOST = "0.0.0.0"
DEFAULT_PORT = 8080
DEFAULT_MAX_WAIT_S = 60.0
DEFAULT_MASTER_METRICS_PORT = 9003
DRAIN_S_MAX = 86_400
# What `perigee drain` may take beside its time.
DRAIN_GRACE_S = 10.0
SETUP_RETRY_S = 1.0
MAX_BODY_BYTES = 100 * 1024 * 1024
# Bodies of requests in progress, together; small ones do not count.
MAX_BODIES_BYTES = 256 * 1024 * 1024
SMALL_BODY_BYTES = 64 * 1024
BODY_DEADLINE_S = 60.0
MAX_GRACE_S = 3600
MAX_SHM_NAME = 255
SHM_FOLDER = "/dev/shm/"

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class RequestError(Exception):
    """A request that cannot be served: HTTP status, the text of `error` and further fields."""

    def __init__(self, message: str, status: int = 400, **more: Any) -> None:
        super().__init__(message)
        self.status = status
        self.more = more


def error_response(message: str, status: int, **more: Any) -> web.Response:
    """Return the JSON error every route uses."""
    return web.json_response({"error": message, **more}, status=status)


def is_positive_int(value: Any) -> bool:
    """Say whether a JSON value is an integer above zero (booleans are not)."""
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def require_size(body: dict[str, Any]) -> int:
    """Return the `size` of a mount request in bytes."""
    if not is_positive_int(body.get("size")):
        raise RequestError("Invalid size, must be a positive integer")
    return body["size"]


def require_segment_ids(body: dict[str, Any]) -> list[str]:
    """Return the non-empty `segment_ids` of an unmount request; one id may stand alone."""
    ids = body.get("segment_ids")
    if not ids:
        raise RequestError("Missing segment_ids")
    ids = [ids] if isinstance(ids, str) else ids
    if not isinstance(ids, list) or not all(isinstance(item, str) for item in ids):
        raise RequestError("Invalid segment_ids, must be a list of strings")
    return ids


def optional_grace(body: dict[str, Any]) -> int:
    """Return `grace_period_seconds`, 0 if absent."""
    grace = body.get("grace_period_seconds", 0)
    if isinstance(grace, bool) or not isinstance(grace, int) or not 0 <= grace <= MAX_GRACE_S:
        raise RequestError(f"Invalid grace_period_seconds, must be from 0 to {MAX_GRACE_S}")
    return grace


def optional_offset(body: dict[str, Any]) -> int:
    """Return `offset` in bytes, 0 if absent."""
    offset = body.get("offset", 0)
    if isinstance(offset, bool) or not isinstance(offset, int) or offset < 0:
        raise RequestError("Invalid offset, must be a non-negative integer")
    return offset


def optional_text(body: dict[str, Any], field: str, default: str) -> str:
    """Return a text field or its default."""
    value = body.get(field, default)
    if not isinstance(value, str):
        raise RequestError(f"Invalid {field}, must be a string")
    return value


def require_shm_path(body: dict[str, Any]) -> str:
    """Return the path of the shared-memory object `name`; no name leaves the folder."""
    name = body.get("name")
    wrong = (
        not isinstance(name, str)
        or not name.strip("/.")
        or len(name) > MAX_SHM_NAME
        or "/" in name.removeprefix("/")
        or "\0" in name
    )
    if wrong or not is_positive_int(body.get("size")):
        raise RequestError("Missing or invalid name or size")
    return SHM_FOLDER + name.removeprefix("/")


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
        body = json.loads(await asyncio.wait_for(request.text(), BODY_DEADLINE_S))
    except asyncio.TimeoutError:
        raise RequestError("The body did not arrive in time", 408) from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise RequestError(str(error), 500) from None
    if not isinstance(body, dict):
        raise RequestError("The body must be a JSON object")
    return body


def guarded(name: str, handler: Handler, bodies: BodyBudget) -> Handler:
    """Wrap a route: log its time, bound its body, turn every failure into a JSON error."""

    async def route(request: web.Request) -> web.StreamResponse:
        started = time.monotonic()
        try:
            with bodies.room_for(request):
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


@dataclass(frozen=True)
class StopDrain:
    """How a stop moves the objects here to other stores first."""

    seconds: float
    master_metrics_port: int

    async def run(self, master: str, segment: str) -> bool:
        """Run `perigee drain` within the time; False if objects are left, which the log says."""
        words = [f"--master={master}", f"--metrics_port={self.master_metrics_port}"]
        words += [f"--segment={segment}", f"--timeout={max(1, round(self.seconds * 1000))}ms"]
        logger.info("Moving objects to other stores, %g s at most", self.seconds)
        drain = await asyncio.create_subprocess_exec(
            program_path(), "drain", *words, stdout=PIPE, stderr=STDOUT
        )
        try:
            limit = self.seconds + DRAIN_GRACE_S
            said, _ = await asyncio.wait_for(drain.communicate(), limit)
        except asyncio.TimeoutError:
            drain.kill()
            await drain.wait()
            said = b"perigee drain did not end"
        text = said.decode(errors="replace").strip()
        if drain.returncode == 0:
            logger.info("%s", text)
            return True
        logger.error("Objects are dropped with this store: %s", text)
        return False


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
        self.shm_segment_ids: list[str] = []
        self._reconfigure = asyncio.Lock()
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
        for method, path, name, handler in (
            ("PUT", "/api/put", "PUT", self.handle_put),
            ("GET", "/api/get/{key:.+}", "GET", self.handle_get),
            ("GET", "/api/exist/{key:.+}", "EXIST", self.handle_exist),
            ("DELETE", "/api/remove/{key:.+}", "REMOVE", self.handle_remove),
            ("DELETE", "/api/remove_all", "REMOVE_ALL", self.handle_remove_all),
            ("POST", "/api/mount_shm", "MOUNT_SHM", self.handle_mount_shm),
            ("POST", "/api/unmount_shm", "UNMOUNT_SHM", self.handle_unmount_shm),
            ("POST", "/api/mount", "MOUNT", self.handle_mount),
            ("POST", "/api/unmount", "UNMOUNT", self.handle_unmount),
            ("POST", "/api/unmount_local_disk", "UNMOUNT_LOCAL_DISK", self.handle_unmount_disk),
            ("POST", "/api/reconfigure", "RECONFIGURE", self.handle_reconfigure),
        ):
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
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None
            if self.drain is not None:
                await self.drain.run(self.config.master_server_address, self.store.get_hostname())
        await asyncio.to_thread(self.store.close)
        logger.info("Store service stopped")

    async def handle_put(self, request: web.Request) -> web.Response:
        """PUT /api/put {key, value}: store the UTF-8 text `value`."""
        body = await read_object(request)
        key, value = body.get("key"), body.get("value")
        if not key or not value:
            raise RequestError("Missing key or value")
        if not isinstance(key, str) or not isinstance(value, str):
            raise RequestError("key and value must be strings")
        code = await asyncio.to_thread(self.store.put, key, value.encode())
        if code != 0:
            raise RequestError("PUT operation failed", 500)
        return web.json_response({"status": "success"})

    async def handle_get(self, request: web.Request) -> web.Response:
        """GET /api/get/{key}: the bytes as they are; 404 when there is no such key."""
        key = request.match_info["key"]
        value = await asyncio.to_thread(self.store.get, key)
        # No bytes are an empty object, a miss, or a read that failed.
        if not value and not await self._exists(key):
            raise RequestError("Key not found", 404)
        return web.Response(body=value, content_type="application/octet-stream")

    async def handle_exist(self, request: web.Request) -> web.Response:
        """GET /api/exist/{key}: `{"exists": bool}`; 500 when the master cannot be asked."""
        return web.json_response({"exists": await self._exists(request.match_info["key"])})

    async def _exists(self, key: str) -> bool:
        code = await asyncio.to_thread(self.store.is_exist, key)
        if code < 0:
            logger.error("The master cannot be asked for a key, ret=%d", code)
            raise RequestError("Exist check failed", 500)
        return code == 1

    async def handle_remove(self, request: web.Request) -> web.Response:
        """DELETE /api/remove/{key}; 500 when it is unknown or leased."""
        code = await asyncio.to_thread(self.store.remove, request.match_info["key"])
        if code != 0:
            raise RequestError("Remove operation failed", 500)
        return web.json_response({"status": "success"})

    async def handle_remove_all(self, _request: web.Request) -> web.Response:
        """DELETE /api/remove_all: leased objects stay."""
        count = await asyncio.to_thread(self.store.remove_all)
        if count < 0:
            raise RequestError("RemoveAll operation failed", 500)
        return web.json_response({"status": f"success removed {count} keys"})

    async def handle_mount(self, request: web.Request) -> web.Response:
        """POST /api/mount {size, protocol, location}: lend `size` more bytes."""
        body = await read_object(request)
        size = require_size(body)
        protocol = optional_text(body, "protocol", self.config.protocol)
        location = optional_text(body, "location", "")
        result = await asyncio.to_thread(
            self.store.allocate_and_mount_segment, size, protocol, location
        )
        if result["ret"] != 0:
            raise RequestError(f"Mount failed, ret={result['ret']}", 500)
        answer = {"status": "success", "segment_ids": result["segment_ids"]}
        return web.json_response(answer | {"allocated_size": size})

    async def handle_unmount(self, request: web.Request) -> web.Response:
        """POST /api/unmount {segment_ids, grace_period_seconds}: withdraw and free."""
        body = await read_object(request)
        ids, grace = require_segment_ids(body), optional_grace(body)
        code = await asyncio.to_thread(self.store.unmount_and_free_segment, ids, grace)
        if code != 0:
            raise RequestError(f"Unmount failed, ret={code}", 500)
        return web.json_response({"status": "success"})

    async def _mount_shm(self, path: str, body: dict[str, Any]) -> list[str]:
        result = await asyncio.to_thread(
            self.store.mount_segment,
            path,
            body["size"],
            optional_offset(body),
            optional_text(body, "protocol", self.config.protocol),
            optional_text(body, "location", ""),
        )
        if result["ret"] != 0:
            raise RequestError(f"Mount failed, ret={result['ret']}", 500)
        return list(result["segment_ids"])

    async def handle_mount_shm(self, request: web.Request) -> web.Response:
        """POST /api/mount_shm {name, size, offset, …}: lend a named shared-memory object."""
        body = await read_object(request)
        ids = await self._mount_shm(require_shm_path(body), body)
        self.shm_segment_ids.extend(ids)
        return web.json_response({"status": "success", "segment_ids": ids})

    async def _unmount_each(self, ids: Sequence[str], grace_s: int) -> dict[str, int]:
        """Unmount each segment on its own; returns the codes of those that failed."""
        failed = {}
        for segment_id in ids:
            code = await asyncio.to_thread(self.store.unmount_segment, [segment_id], grace_s)
            if code != 0:
                failed[segment_id] = code
            elif segment_id in self.shm_segment_ids:
                self.shm_segment_ids.remove(segment_id)
        return failed

    async def handle_unmount_shm(self, request: web.Request) -> web.Response:
        """POST /api/unmount_shm {segment_ids, …}: each on its own, failures are listed."""
        body = await read_object(request)
        failed = await self._unmount_each(require_segment_ids(body), optional_grace(body))
        if failed:
            why = "Some segments were not unmounted"
            raise RequestError(why, 500, failed=failed, failed_segment_ids=list(failed))
        return web.json_response({"status": "success"})

    async def handle_unmount_disk(self, request: web.Request) -> web.Response:
        """POST /api/unmount_local_disk: withdraw the SSD tier."""
        body = await read_object(request) if request.can_read_body else {}
        grace = optional_grace(body)
        code = await asyncio.to_thread(self.store.unmount_local_disk_segment, grace)
        if code != 0:
            raise RequestError(f"Unmount failed, ret={code}", 500)
        return web.json_response({"status": "success"})

    async def handle_reconfigure(self, request: web.Request) -> web.Response:
        """POST /api/reconfigure: `decode` lends a file's memory, `prefill` takes it all back.

        `decode` mounts the new segment before it retires the old ones, which stay if it fails.
        """
        body = await read_object(request)
        mode = body.get("mode")
        if mode not in ("decode", "prefill"):
            raise RequestError("Invalid mode. Use 'decode' or 'prefill'")
        async with self._reconfigure:
            old, ids = list(self.shm_segment_ids), None
            if mode == "decode":
                path = optional_text(body, "path", "")
                if not path or not is_positive_int(body.get("size")):
                    raise RequestError("Missing path or size for mode decode")
                try:
                    ids = await self._mount_shm(path, body)
                except RequestError as error:
                    now = "decode" if old else "prefill"
                    kept = "keeping previous decode segments" if old else "rolled back to prefill"
                    raise RequestError(f"{error}; {kept}", error.status, mode=now) from None
                self.shm_segment_ids.extend(ids)
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


def parse_arguments(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Return the parsed command line: config, define, port, max_wait_time."""
    parser = argparse.ArgumentParser(
        prog="mooncake_store_service", description="Mooncake Store Service with REST API"
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s version {__version__}")
    parser.add_argument("--config", help="Path to a Mooncake config file")
    parser.add_argument(
        "-D",
        "--define",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="Override a config field, for example -Dlocal_hostname=example.com",
    )
    parser.add_argument(
        "--host",
        default=DEFAULT_HOST,
        help="Address to listen on, for example 127.0.0.1 (default: all, 0.0.0.0)",
    )
    parser.add_argument("--port", type=_port, default=DEFAULT_PORT, help="HTTP API port")
    parser.add_argument(
        "--max-wait-time",
        type=float,
        default=DEFAULT_MAX_WAIT_S,
        help="Seconds to go on trying to reach the cluster (default: 60)",
    )
    parser.add_argument(
        "--drain-on-stop",
        "--drain_on_stop",
        type=_seconds,
        default=0.0,
        metavar="SECONDS",
        help="Longest time for which a stop moves the objects here to other stores first "
        "(default: 0, which drops them)",
    )
    parser.add_argument(
        "--master-metrics-port",
        "--master_metrics_port",
        type=_port,
        default=DEFAULT_MASTER_METRICS_PORT,
        help="HTTP port of the master, which a drain is asked for at (default: 9003)",
    )
    return parser.parse_args(arguments)


def _port(text: str) -> int:
    try:
        return parse_port(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _seconds(text: str) -> float:
    seconds = float(text.removesuffix("s"))
    if not 0 <= seconds <= DRAIN_S_MAX:
        raise argparse.ArgumentTypeError(f"{text} is not from 0 to {DRAIN_S_MAX} seconds")
    return seconds


def load_config(path: str | None, defines: Sequence[str]) -> MooncakeConfig:
    """Return the configuration of a file, or of the environment, with `key=value` overrides."""
    overrides = dict(_split_define(define) for define in defines)
    if path:
        with open(path, encoding="utf-8") as source:
            values = json.load(source)
        if not isinstance(values, dict):
            raise ValueError(f"{path} must hold one JSON object")
        return MooncakeConfig.from_mapping(values | overrides)
    required = ("local_hostname", "metadata_server", "master_server_address")
    if all(field in overrides for field in required):
        return MooncakeConfig.from_mapping(overrides)
    config = MooncakeConfig.load_from_env()
    values = {field.name: getattr(config, field.name) for field in fields(config)}
    return MooncakeConfig.from_mapping(values | overrides)


def _split_define(define: str) -> tuple[str, str]:
    key, separator, value = define.partition("=")
    known = [field.name for field in fields(MooncakeConfig)]
    if not separator or key.strip() not in known:
        raise ValueError(f"-D{define} is no setting; write KEY=VALUE, KEY one of {known}")
    return key.strip(), value.strip()


async def serve(options: argparse.Namespace) -> int:
    """Run the service until SIGINT or SIGTERM; returns the exit status."""
    drain = None
    if options.drain_on_stop > 0:
        drain = StopDrain(options.drain_on_stop, options.master_metrics_port)
    config = load_config(options.config, options.define)
    service = MooncakeStoreService(config, host=options.host, port=options.port, drain=drain)
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopping.set)
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
