"""Configuration of a store client, read from a JSON file or from the environment.

File keys equal the field names of `MooncakeConfig`; the environment names are in `_ENVIRONMENT`.
When `MOONCAKE_CONFIG_PATH` is set the file alone decides and the other variables are ignored.
"""

from __future__ import annotations

import json
import logging
import os
import re
from dataclasses import dataclass
from typing import Any, Mapping

logger = logging.getLogger(__name__)

DEFAULT_GLOBAL_SEGMENT_SIZE = 3_355_443_200
DEFAULT_LOCAL_BUFFER_SIZE = 1_073_741_824
DEFAULT_CLIENT_HTTP_PORT = 9300
MAX_PORT = 65_535

KNOWN_PROTOCOLS = frozenset(
    "tcp rdma efa nvmeof nvlink nvlink_intra musa hip barex cxl ascend ub ubshmem maca "
    "sunrise_link rpc_only".split()
)

_REQUIRED = ("local_hostname", "metadata_server", "master_server_address")
_DEFAULTS: dict[str, Any] = {
    "global_segment_size": DEFAULT_GLOBAL_SEGMENT_SIZE,
    "local_buffer_size": DEFAULT_LOCAL_BUFFER_SIZE,
    "protocol": "tcp",
    "device_name": "",
    "enable_ssd_offload": False,
    "ssd_offload_path": "",
    "ssd_key_file": "",
    "tenant_id": "default",
    "enable_client_http_server": False,
    "client_http_port": DEFAULT_CLIENT_HTTP_PORT,
}
_ENVIRONMENT = {
    "local_hostname": "MOONCAKE_LOCAL_HOSTNAME",
    "metadata_server": "MOONCAKE_TE_META_DATA_SERVER",
    "master_server_address": "MOONCAKE_MASTER",
    "global_segment_size": "MOONCAKE_GLOBAL_SEGMENT_SIZE",
    "local_buffer_size": "MOONCAKE_LOCAL_BUFFER_SIZE",
    "protocol": "MOONCAKE_PROTOCOL",
    "device_name": "MOONCAKE_DEVICE",
    "enable_ssd_offload": "MOONCAKE_OFFLOAD_ENABLED",
    "ssd_offload_path": "MOONCAKE_OFFLOAD_FILE_STORAGE_PATH",
    "ssd_key_file": "PERIGEE_SSD_KEY_FILE",
    "tenant_id": "MOONCAKE_TENANT_ID",
    "enable_client_http_server": "MOONCAKE_ENABLE_CLIENT_HTTP_SERVER",
    "client_http_port": "MOONCAKE_CLIENT_HTTP_PORT",
}
_ENVIRONMENT_DEFAULTS = {"local_hostname": "localhost", "metadata_server": "P2PHANDSHAKE"}

_TRUE = frozenset(("true", "1", "yes", "on", "enable", "enabled"))
_FALSE = frozenset(("false", "0", "no", "off", "disable", "disabled", ""))
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?(?:e\+?\d{1,2})?)\s*([a-z]*)\s*", re.ASCII)
_UNIT_BYTES = {
    "": 1,
    "b": 1,
    "k": 1 << 10,
    "m": 1 << 20,
    "g": 1 << 30,
    "t": 1 << 40,
}


def parse_size(value: Any, field: str = "size") -> int:
    """Return a number of bytes from a number or a text like `"4gb"`, `"1.5 GiB"` or `"1e9"`.

    Units are powers of two and case does not matter. A part of a byte is cut off. Raises
    `ValueError` naming `field`.
    """
    if isinstance(value, bool):
        raise ValueError(f"{field} must be a number of bytes, not a boolean")
    if isinstance(value, (int, float)):
        if not 0 <= value < float("inf"):
            raise ValueError(f"{field} must be 0 or more bytes, got {value}")
        return int(value)
    if not isinstance(value, str):
        raise ValueError(f"{field} must be an integer or a text, got {type(value).__name__}")
    match = _SIZE.fullmatch(value.lower())
    unit = None if match is None else _unit_bytes(match.group(2))
    if match is None or unit is None:
        raise ValueError(
            f"{field} {value!r} is no size; write a number of bytes or a number with "
            "b, kb, mb, gb or tb, for example 4gb"
        )
    number = match.group(1)
    # A float holds 53 bits: whole numbers stay integers.
    return int(number) * unit if number.isdigit() else int(float(number) * unit)


# Mooncake's name of it, which other projects import.
_parse_segment_size = parse_size


def _unit_bytes(suffix: str) -> int | None:
    """Return the bytes of one unit: `g`, `gb` and `gib` are the same; None if unknown."""
    if suffix in _UNIT_BYTES:
        return _UNIT_BYTES[suffix]
    for ending in ("ib", "b"):
        if suffix.endswith(ending) and len(suffix) == len(ending) + 1:
            return _UNIT_BYTES.get(suffix[0])
    return None


def parse_bool(value: Any, field: str = "value") -> bool:
    """Return a boolean from true/1/yes/on/enable or their opposites; else raise `ValueError`.

    None, which is what a JSON null becomes, is False.
    """
    if value is None or isinstance(value, bool):
        return bool(value)
    text = str(value).strip().lower()
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise ValueError(f"{field} {value!r} is no boolean; write true or false")


def parse_port(value: Any, field: str = "port") -> int:
    """Return a TCP port from 1 to 65535; else raise `ValueError` naming `field`."""
    try:
        port = int(str(value).strip())
    except ValueError:
        raise ValueError(f"{field} {value!r} is no port number") from None
    if not 0 < port <= MAX_PORT:
        raise ValueError(f"{field} must be from 1 to {MAX_PORT}, got {port}")
    return port


@dataclass
class MooncakeConfig:
    """What a client needs to join a cluster; sizes in bytes.

    `global_segment_size` is the memory lent to the cluster (0: none), `local_buffer_size` the
    memory for copying calls (0: zero-copy calls only).
    """

    local_hostname: str
    metadata_server: str
    global_segment_size: int
    local_buffer_size: int
    protocol: str
    device_name: str
    master_server_address: str
    enable_ssd_offload: bool = False
    ssd_offload_path: str = ""
    tenant_id: str = "default"
    enable_client_http_server: bool = False
    client_http_port: int = DEFAULT_CLIENT_HTTP_PORT
    ssd_key_file: str = ""

    def __post_init__(self) -> None:
        for field in _REQUIRED:
            if not str(getattr(self, field) or "").strip():
                raise ValueError(f"{field} must not be empty")
        self.global_segment_size = parse_size(self.global_segment_size, "global_segment_size")
        self.local_buffer_size = parse_size(self.local_buffer_size, "local_buffer_size")
        self.protocol = str(self.protocol or "").strip().lower()
        if not self.protocol:
            raise ValueError("Invalid protocol: it is empty; tcp is the default")
        if self.protocol not in KNOWN_PROTOCOLS:
            logger.warning("Unrecognised protocol %r; the client decides at setup", self.protocol)
        self.device_name = self.device_name or ""
        self.ssd_offload_path = self.ssd_offload_path or ""
        self.ssd_key_file = self.ssd_key_file or ""
        self.tenant_id = self.tenant_id or _DEFAULTS["tenant_id"]
        self.enable_ssd_offload = parse_bool(self.enable_ssd_offload, "enable_ssd_offload")
        self.enable_client_http_server = parse_bool(
            self.enable_client_http_server, "enable_client_http_server"
        )
        self.client_http_port = parse_port(self.client_http_port, "client_http_port")

    @staticmethod
    def from_mapping(values: Mapping[str, Any]) -> "MooncakeConfig":
        """Return the configuration of a decoded JSON object; raise `ValueError` if it is wrong."""
        for field in _REQUIRED:
            if field not in values:
                raise ValueError(f"Missing required config field: {field}")
        unknown = sorted(set(values) - set(_REQUIRED) - set(_DEFAULTS))
        if unknown:
            logger.warning("Unknown config keys are ignored: %s", ", ".join(unknown))
        fields = {field: values[field] for field in _REQUIRED}
        fields.update({field: values.get(field, default) for field, default in _DEFAULTS.items()})
        # A file without a tenant is one of the tenant that the environment names.
        fields["tenant_id"] = values.get("tenant_id") or os.getenv("MOONCAKE_TENANT_ID") or ""
        return MooncakeConfig(**fields)

    @staticmethod
    def from_file(file_path: str) -> "MooncakeConfig":
        """Read a JSON file; raise `OSError` or `ValueError` naming what is wrong."""
        with open(file_path, encoding="utf-8") as source:
            values = json.load(source)
        if not isinstance(values, dict):
            raise ValueError(f"{file_path} must hold one JSON object")
        return MooncakeConfig.from_mapping(values)

    @staticmethod
    def load_from_env() -> "MooncakeConfig":
        """Read the file named by `MOONCAKE_CONFIG_PATH`, else the `MOONCAKE_*` variables."""
        path = os.getenv("MOONCAKE_CONFIG_PATH")
        if path:
            return MooncakeConfig.from_file(path)
        if not os.getenv("MOONCAKE_MASTER"):
            raise ValueError(
                "Neither the environment variable 'MOONCAKE_CONFIG_PATH' nor 'MOONCAKE_MASTER' "
                "is set. Set one of them, for example MOONCAKE_MASTER=127.0.0.1:50051"
            )
        values: dict[str, Any] = dict(_ENVIRONMENT_DEFAULTS)
        for field, name in _ENVIRONMENT.items():
            if name in os.environ:
                values[field] = os.environ[name]
        return MooncakeConfig.from_mapping(values)
