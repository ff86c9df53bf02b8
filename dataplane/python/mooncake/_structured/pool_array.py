"""Arrays over memory that is lent by a buffer pool.

Invariant: a lease goes back once: when the last array or view over it is gone, of whatever class,
or by `release_result`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np


class LeaseOwner:
    """Holds a lease until it is released or nothing refers to it.

    A lease that is dropped gives its memory back by itself, and takes no lock for it.
    """

    def __init__(self, lease: Any) -> None:
        self._lease = lease

    def release(self) -> None:
        """Give the memory back; the arrays over it must not be used any more."""
        lease, self._lease = self._lease, None
        if lease is not None:
            lease.release()


class PoolArray(np.ndarray):
    """An array, or a view of one, that names the owner of its lease for `release_result`."""

    _mooncake_pool_owner: LeaseOwner | None

    def __array_finalize__(self, source: Any) -> None:
        self._mooncake_pool_owner = getattr(source, "_mooncake_pool_owner", None)


def pool_array(lease: Any, dtype: np.dtype, shape: tuple[int, ...]) -> PoolArray:
    """Return an array over the first bytes of a lease."""
    from .raw_memory import array_at

    owner = LeaseOwner(lease)
    array = array_at(lease.ptr, dtype, shape, owner).view(PoolArray)
    array._mooncake_pool_owner = owner
    return array


def release_result(result: Any) -> None:
    """Give back all pool memory under what was read. Arrays over it must not be used any more."""
    owners: dict[int, Any] = {}
    _collect(result, owners)
    for owner in owners.values():
        owner.release()


def _collect(value: Any, owners: dict[int, Any]) -> None:
    owner = getattr(value, "_mooncake_pool_owner", None)
    if owner is not None:
        owners[id(owner)] = owner
    elif isinstance(value, Mapping):
        for item in value.values():
            _collect(item, owners)
    elif isinstance(value, (list, tuple)) or (
        isinstance(value, np.ndarray) and value.dtype == object
    ):
        for item in value if not isinstance(value, np.ndarray) else value.flat:
            _collect(item, owners)
