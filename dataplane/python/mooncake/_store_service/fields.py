"""Fields of a JSON request. What is wrong is a `RequestError` with the answer's status."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

DEFAULT_TENANT = "default"
MAX_GRACE_S = 3600
MAX_SHM_NAME = 255
SHM_FOLDER = "/dev/shm/"
LENT_FOLDERS = (SHM_FOLDER, "/dev/hugepages/")


@dataclass(frozen=True)
class FileRange:
    """Bytes of a file that are lent."""

    path: str
    offset: int
    size: int

    def overlaps(self, other: FileRange) -> bool:
        """Say whether both have a byte in common."""
        starts_before = self.offset < other.offset + other.size
        return self.path == other.path and starts_before and other.offset < self.offset + self.size


class RequestError(Exception):
    """A request that cannot be served: HTTP status, the text of `error` and further fields."""

    def __init__(self, message: str, status: int = 400, **more: Any) -> None:
        super().__init__(message)
        self.status = status
        self.more = more


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
    path = shm_path(body.get("name"))
    if path is None or not is_positive_int(body.get("size")):
        raise RequestError("Missing or invalid name or size")
    return path


def shm_path(name: Any) -> str | None:
    """Return the path of a shared-memory object; None if it can have no such name."""
    if not isinstance(name, str):
        return None
    wrong = (
        not name.strip("/.")
        or len(name) > MAX_SHM_NAME
        or "/" in name.removeprefix("/")
        or "\0" in name
    )
    return None if wrong else SHM_FOLDER + name.removeprefix("/")


def require_memory_path(body: dict[str, Any]) -> str:
    """Return the real `path` of a file of shared memory or huge pages; no link leads elsewhere."""
    path = optional_text(body, "path", "")
    if not path or not is_positive_int(body.get("size")):
        raise RequestError("Missing path or size for mode decode")
    real = "" if "\0" in path else os.path.realpath(path)
    if not real.startswith(LENT_FOLDERS):
        raise RequestError(f"Only files in {' and '.join(LENT_FOLDERS)} are lent, not {path!r}")
    return real
