"""A proxy in front of vLLM instances that prefill and others that decode.

`python -m mooncake.vllm_v1_proxy_server --prefiller-hosts A --prefiller-ports 8100
--decoder-hosts B --decoder-ports 8200`. A completion goes to a prefiller for one token, then with
the transfer parameters of its answer to a decoder, whose answer is passed on as it comes. Instances
take turns. It has no authentication of its own: it passes the caller's `Authorization` on.
"""

from __future__ import annotations

import argparse
import itertools
import logging
import os
import sys
import uuid
from collections.abc import Iterator, Sequence
from typing import Any

from aiohttp import ClientError, ClientSession, ClientTimeout, web

logger = logging.getLogger("mooncake.proxy")

DEFAULT_HOST, DEFAULT_PORT = "127.0.0.1", 8000
MAX_BODY_BYTES = 100 * 1024 * 1024
CONNECT_S = 10.0
# Between two pieces of an answer: a long prompt is prefilled before the first one.
SILENCE_S = 600.0
ROUTES = ("/v1/completions", "/v1/chat/completions")
ASK_FOR_TRANSFER = {
    "do_remote_decode": True,
    "do_remote_prefill": False,
    "remote_engine_id": None,
    "remote_block_ids": None,
    "remote_host": None,
    "remote_port": None,
}


class InstanceError(Exception):
    """An instance that answers with an error, or not at all: HTTP status and what to say."""

    def __init__(self, message: str, status: int = 502) -> None:
        super().__init__(message)
        self.status = status


def prefill_body(body: dict[str, Any]) -> dict[str, Any]:
    """Return the request that makes a prefiller keep the KV cache of a prompt for a decoder."""
    changed = {**body, "kv_transfer_params": ASK_FOR_TRANSFER, "stream": False, "max_tokens": 1}
    if "max_completion_tokens" in body:
        changed["max_completion_tokens"] = 1
    changed.pop("stream_options", None)
    return changed


class Proxy:
    """The instances of both kinds, as `host:port`, and the routes."""

    def __init__(self, prefillers: Sequence[str], decoders: Sequence[str]) -> None:
        self.counts = {"prefill_instances": len(prefillers), "decode_instances": len(decoders)}
        self._prefillers: Iterator[str] = itertools.cycle(prefillers)
        self._decoders: Iterator[str] = itertools.cycle(decoders)

    def application(self) -> web.Application:
        """Return the HTTP application."""
        app = web.Application(client_max_size=MAX_BODY_BYTES)
        app.cleanup_ctx.append(self._connect)
        for route in ROUTES:
            app.router.add_post(route, self.complete)
        app.router.add_get("/healthcheck", self.health)
        return app

    async def _connect(self, _app: web.Application) -> Any:
        timeout = ClientTimeout(total=None, sock_connect=CONNECT_S, sock_read=SILENCE_S)
        async with ClientSession(timeout=timeout) as self._session:
            yield

    async def health(self, _request: web.Request) -> web.Response:
        """GET /healthcheck: the proxy runs; how many instances it knows."""
        return web.json_response({"status": "ok", **self.counts})

    async def complete(self, request: web.Request) -> web.StreamResponse:
        """POST a completion: prefill, then pass on what the decoder says."""
        try:
            body = await request.json()
        except ValueError as error:
            return _error(f"The body is no JSON: {error}", 400)
        if not isinstance(body, dict):
            return _error("The body must be a JSON object", 400)
        key = os.environ.get("OPENAI_API_KEY")
        headers = {"X-Request-Id": str(uuid.uuid4())}
        if "Authorization" in request.headers or key:
            headers["Authorization"] = request.headers.get("Authorization", f"Bearer {key}")
        try:
            transfer = await self._prefill(request.path, prefill_body(body), headers)
            if transfer:
                body["kv_transfer_params"] = transfer
            return await self._decode(request, body, headers)
        except InstanceError as error:
            logger.error("%s: %s", request.path, error)
            return _error(str(error), error.status)

    async def _prefill(self, path: str, body: dict[str, Any], headers: dict[str, str]) -> Any:
        """Return the `kv_transfer_params` of a prefiller's answer."""
        instance = next(self._prefillers)
        try:
            async with self._session.post(
                f"http://{instance}{path}", json=body, headers=headers
            ) as answer:
                if answer.status != 200:
                    why = await answer.text()
                    raise InstanceError(f"prefiller {instance}: {why}", answer.status)
                return (await answer.json()).get("kv_transfer_params")
        except (ClientError, TimeoutError, OSError, ValueError, AttributeError) as error:
            raise InstanceError(f"prefiller {instance} does not answer: {error!r}") from error

    async def _decode(
        self, request: web.Request, body: dict[str, Any], headers: dict[str, str]
    ) -> web.StreamResponse:
        instance, passed = next(self._decoders), None
        try:
            async with self._session.post(
                f"http://{instance}{request.path}", json=body, headers=headers
            ) as answer:
                kind = answer.headers.get("Content-Type", "application/json")
                passed = web.StreamResponse(status=answer.status, headers={"Content-Type": kind})
                await passed.prepare(request)
                async for piece in answer.content.iter_any():
                    await passed.write(piece)
        except (ClientError, TimeoutError, OSError) as error:
            if passed is None:
                raise InstanceError(f"decoder {instance} does not answer: {error!r}") from error
            # The status is sent: a connection that ends early is all that can be said.
            logger.error("decoder %s broke off: %r", instance, error)
            if request.transport is not None:
                request.transport.abort()
            return passed
        await passed.write_eof()
        return passed


def _error(message: str, status: int) -> web.Response:
    return web.json_response({"error": {"message": message, "code": status}}, status=status)


def parse_args(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Return the options; `prefillers` and `decoders` are lists of `host:port`."""
    parser = argparse.ArgumentParser(
        prog="vllm_v1_proxy_server", description="Proxy of vLLM prefill and decode instances"
    )
    parser.add_argument("--host", default=DEFAULT_HOST, help="Address to listen on")
    parser.add_argument("--port", type=int, default=DEFAULT_PORT, help="Port to listen on")
    for kind, port in (("prefiller", 8100), ("decoder", 8200)):
        hosts, ports = f"--{kind}-host", f"--{kind}-port"
        parser.add_argument(f"{hosts}s", hosts, nargs="+", default=["localhost"])
        parser.add_argument(f"{ports}s", ports, nargs="+", type=int, default=[port])
    options = parser.parse_args(arguments)
    for kind in ("prefiller", "decoder"):
        hosts, ports = getattr(options, f"{kind}_hosts"), getattr(options, f"{kind}_ports")
        if len(hosts) != len(ports):
            parser.error(f"--{kind}-hosts and --{kind}-ports must be as many")
        names = [f"[{host}]" if ":" in host else host for host in hosts]
        pairs = [f"{name}:{port}" for name, port in zip(names, ports)]
        setattr(options, f"{kind}s", pairs)
    return options


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the proxy until SIGINT or SIGTERM."""
    options = parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(levelname)s %(message)s")
    proxy = Proxy(options.prefillers, options.decoders)
    try:
        web.run_app(proxy.application(), host=options.host, port=options.port)
    except OSError as error:
        sys.exit(f"vllm_v1_proxy_server: {error}")


if __name__ == "__main__":
    main()
