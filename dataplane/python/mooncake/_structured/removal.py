"""Taking keys back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .model import STORE_MISS

GONE = (None, 0, STORE_MISS)


def remove_keys(store: Any, keys: Iterable[str], strict: bool) -> None:
    """Remove keys, in one call if the store has one, and try each that failed once more.

    With `strict` a key that stays is a RuntimeError; without, nothing is raised.
    """
    left = list(dict.fromkeys(keys))
    batch_remove = getattr(store, "batch_remove", None)
    if callable(batch_remove) and left:
        try:
            codes = batch_remove(left, True)
            left = [key for key, code in zip(left, codes, strict=True) if code not in GONE]
        except Exception:
            if strict:
                raise
    stay = []
    for key in left:
        try:
            code = store.remove(key, True)
        except KeyError:
            continue
        except Exception:
            if strict:
                raise
            continue
        if code not in GONE:
            stay.append(f"{key} ({code})")
    if stay and strict:
        raise RuntimeError(f"{len(stay)} keys could not be removed, among them {stay[0]}")
