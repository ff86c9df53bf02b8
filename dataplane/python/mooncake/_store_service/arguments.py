"""The command line and configuration of the service."""

from __future__ import annotations

import argparse
import json
import os
from dataclasses import fields
from typing import Any, Sequence

from .. import MOONCAKE_VERSION, __version__
from ..mooncake_config import MooncakeConfig, parse_port

DEFAULT_HOST = "0.0.0.0"
DEFAULT_PORT = 8080
DEFAULT_MAX_WAIT_S = 60.0
DEFAULT_MASTER_METRICS_PORT = 9003
DRAIN_S_MAX = 86_400
# Less than the 30 s that Kubernetes gives a pod.
DEFAULT_DRAIN_S = 20.0


def parse_arguments(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Return the parsed command line: config, define, port, the waits."""
    parser = argparse.ArgumentParser(
        prog="mooncake_store_service", description="Mooncake Store Service with REST API"
    )
    version = f"%(prog)s version {__version__} (compatible with Mooncake {MOONCAKE_VERSION})"
    parser.add_argument("--version", action="version", version=version)
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
        default=None,
        metavar="SECONDS",
        help="Longest time for which a stop moves the objects here to other stores first; 0 drops "
        "them (default: 20 after SIGTERM; none if no other store takes objects)",
    )
    parser.add_argument(
        "--master-metrics-port",
        "--master_metrics_port",
        type=_port,
        default=DEFAULT_MASTER_METRICS_PORT,
        help="HTTP port of the master, to which the drain request goes (default: 9003)",
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
    return config_of(path or None, dict(_split_define(define) for define in defines))


def config_of(
    source: str | os.PathLike[str] | MooncakeConfig | None, overrides: dict[str, Any]
) -> MooncakeConfig:
    """Return the configuration of a file, or of the environment, or a given one, with overrides."""
    if isinstance(source, MooncakeConfig):
        return _changed(source, overrides)
    if source is not None:
        with open(source, encoding="utf-8") as opened:
            values = json.load(opened)
        if not isinstance(values, dict):
            raise ValueError(f"{source} must hold one JSON object")
        return MooncakeConfig.from_mapping(values | overrides)
    required = ("local_hostname", "metadata_server", "master_server_address")
    if all(field in overrides for field in required):
        return MooncakeConfig.from_mapping(overrides)
    return _changed(MooncakeConfig.load_from_env(), overrides)


def _changed(config: MooncakeConfig, overrides: dict[str, Any]) -> MooncakeConfig:
    if not overrides:
        return config
    values = {field.name: getattr(config, field.name) for field in fields(config)}
    return MooncakeConfig.from_mapping(values | overrides)


def _split_define(define: str) -> tuple[str, str]:
    key, separator, value = define.partition("=")
    known = [field.name for field in fields(MooncakeConfig)]
    if not separator or key.strip() not in known:
        raise ValueError(f"-D{define} is no setting; write KEY=VALUE, KEY one of {known}")
    return key.strip(), value.strip()
