"""The storage group of a write: one name, repeated for each key that a write makes.

Invariant: a caller's configuration is never changed; it is copied first.
"""

from __future__ import annotations

import copy
import uuid
from collections.abc import Sequence
from typing import Any


def group_of(config: Any) -> str | None:
    """Return the only group that a configuration names, None without one, "" for no group."""
    names = getattr(config, "group_ids", None)
    if names is None or isinstance(names, str):
        return names
    try:
        names = list(names)
    except TypeError:
        raise ValueError("config.group_ids must contain strings") from None
    if len(names) > 1:
        raise ValueError("config.group_ids must have one name; it is repeated for each key")
    if names and not isinstance(names[0], str):
        raise ValueError(f"config.group_ids must contain strings, not {names[0]!r}")
    return names[0] if names else None


def config_for_keys(config: Any, count: int) -> Any:
    """Return the configuration of a call with `count` keys."""
    names = getattr(config, "group_ids", None)
    if names is None or not count:
        return config
    group = group_of(config)
    wanted = None if group is None else [group] * count
    if wanted is not None and not isinstance(names, str) and count == 1:
        return config
    copied = _copy(config)
    copied.group_ids = wanted
    return copied


def config_of_positions(config: Any, positions: Sequence[int]) -> Any:
    """Return the configuration for some keys of a batch, which has one group per key."""
    names = getattr(config, "group_ids", None)
    if not names:
        return config
    copied = _copy(config)
    copied.group_ids = [names[at] for at in positions]
    return copied


def new_group(config: Any) -> str | None:
    """Return the group of a new batch: the caller's, none if it says "", else a new name."""
    group = group_of(config)
    if group is None:
        return f"structured-{uuid.uuid4().hex}"
    return group or None


def config_in_group(config: Any, group: str | None) -> Any:
    """Return `config` with this group; ValueError if it names another one."""
    if group is None:
        return config
    named = group_of(config)
    if named and named != group:
        raise ValueError(f"config.group_ids {named!r} conflicts with {group!r}, the batch's group")
    if config is None:
        from mooncake.store import ReplicateConfig

        copied = ReplicateConfig()
    else:
        copied = _copy(config)
    copied.group_ids = [group]
    return copied


def _copy(config: Any) -> Any:
    try:
        return copy.copy(config)
    except TypeError:
        pass
    try:
        copied = type(config)()
    except TypeError:
        raise TypeError(f"a {type(config).__name__} cannot be copied to set its group") from None
    for name in dir(config):
        if not name.startswith("_") and not callable(getattr(config, name)):
            setattr(copied, name, getattr(config, name))
    return copied
