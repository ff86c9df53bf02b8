"""Stores inside objects of a caller, which hand them out as Mooncake's do."""

from __future__ import annotations

from typing import Any


def client_of(store: Any, user: str) -> Any:
    """Return the store that `user` calls: the one given, or the one that a wrapper holds.

    A wrapper has `_get_pyclient_capsule()` and no calls of its own. Raises `RuntimeError` if there
    is no store.
    """
    if store is None:
        raise RuntimeError(f"{user} needs a store")
    if hasattr(store, "register_buffer"):
        return store
    hand_out = getattr(store, "_get_pyclient_capsule", None)
    if hand_out is None:
        raise RuntimeError(
            f"{user} needs a store, or a wrapper whose _get_pyclient_capsule() returns that of a "
            f"store, not {type(store).__name__}"
        )
    client = hand_out()
    if client is None:
        raise RuntimeError(f"The store of this {type(store).__name__} is not set up: call setup")
    if not hasattr(client, "register_buffer"):
        raise RuntimeError(
            f"_get_pyclient_capsule() of {type(store).__name__} must return what the same call of "
            f"MooncakeDistributedStore returns, not {type(client).__name__}"
        )
    return client
