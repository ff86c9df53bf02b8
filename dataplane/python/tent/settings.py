"""What TENT's configuration says to this engine. A line names keys without effect."""

from __future__ import annotations

import json
import logging
import os
import socket
from dataclasses import dataclass
from typing import Any

from .errors import InvalidArgumentError

logger = logging.getLogger("mooncake.engine")

KEYS = {
    "local_segment_name",
    "metadata_type",
    "metadata_servers",
    "rpc_server_hostname",
    "rpc_server_port",
    "transports",
}
SCHEMES = {"etcd": "etcd://", "redis": "redis://", "http": ""}
TRANSPORTS = ("tcp", "rdma", "shm")
# What is in them has names or an order of the user's own.
WHOLE = ("policy", "qos", "topology.priority_matrix")
# A documentation address: nothing is sent, the kernel only chooses a route.
ELSEWHERE = ("192.0.2.1", 9)


@dataclass(frozen=True)
class Settings:
    """The arguments of the engine's `initialize`."""

    name: str
    metadata: str
    protocol: str

    @classmethod
    def load(cls, path: str | os.PathLike[str] | None) -> Settings:
        """Read a JSON file, or use the defaults without a path."""
        if path is not None and not isinstance(path, (str, os.PathLike)):
            raise TypeError(
                "TransferEngine takes the path of a JSON file with its settings, not "
                f"{type(path).__name__}: write json.dumps(settings) to a file, pass the file's "
                'name, as in TransferEngine("tent.json"); without a path the defaults hold'
            )
        values: Any = {}
        if path:
            try:
                with open(path, encoding="utf-8") as source:
                    values = json.load(source)
            except (OSError, ValueError) as error:
                raise InvalidArgumentError(f"{path} cannot be read: {error}") from None
        if not isinstance(values, dict):
            raise InvalidArgumentError(f"{path} must hold one JSON object")
        unused = _without_effect(values)
        if unused:
            logger.warning("These settings of TENT have no effect here: %s", ", ".join(unused))
        host = values.get("local_segment_name") or values.get("rpc_server_hostname")
        port = values.get("rpc_server_port") or 0
        name = str(host or _own_address())
        if port and not values.get("local_segment_name"):
            name = f"{name}:{port}"
        return cls(name, _metadata(values), _protocol(values.get("transports") or {}))


def _without_effect(values: dict[str, Any]) -> list[str]:
    """Return the names of what is set and read by nothing, each with its place."""
    found = {name for key in set(values) - KEYS for name in _names(key, values[key])}
    transports = values.get("transports") or {}
    for name, options in transports.items() if isinstance(transports, dict) else ():
        place = f"transports.{name}"
        if name in TRANSPORTS and isinstance(options, dict):
            found |= set(_names(place, options)) - {place, f"{place}.enable"}
        elif not isinstance(options, dict) or options.get("enable"):
            found.add(place)
    return sorted(found)


def _names(place: str, value: Any) -> list[str]:
    """Return the names of all settings at a place."""
    if place in WHOLE or not isinstance(value, dict) or not value:
        return [place]
    return [name for key in value for name in _names(f"{place}.{key}", value[key])]


def _metadata(values: dict[str, Any]) -> str:
    kind = values.get("metadata_type", "p2p")
    if kind == "p2p":
        return "P2PHANDSHAKE"
    servers = values.get("metadata_servers")
    if kind not in SCHEMES or not isinstance(servers, str) or not servers:
        raise InvalidArgumentError(
            "metadata_type must be p2p, or etcd, redis or http with metadata_servers"
        )
    return SCHEMES[kind] + servers.removeprefix(SCHEMES[kind])


def _protocol(transports: Any) -> str:
    if not isinstance(transports, dict):
        raise InvalidArgumentError('transports must be an object: {"tcp": {"enable": true}}')
    chosen = [
        name
        for name in TRANSPORTS
        if isinstance(transports.get(name), dict) and transports[name].get("enable")
    ]
    return ",".join(chosen)


def _own_address() -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(ELSEWHERE)
            return str(probe.getsockname()[0])
        except OSError:
            return "127.0.0.1"
