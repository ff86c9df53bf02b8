"""Names of features that are not built: they say so when they are imported or used."""

from __future__ import annotations

import logging
from typing import Any, NoReturn

logger = logging.getLogger("mooncake.store")

NOT_SUPPORTED = -1012


def refuse_import(name: str, what: str) -> NoReturn:
    """Raise the ImportError of a module that is not built; clients that can do without catch it."""
    text = f"{name} is not built in Perigee: {what}; leave out what imports it"
    raise ImportError(text, name=name)


class MooncakeDistributedNoFRegister:
    """Registration of NVMe-over-fabrics targets. Not built: both calls log and return -1012."""

    def real_register(self, *args: Any, **kwargs: Any) -> int:
        """Register a target. Always -1012."""
        return _refuse()

    def real_unregister_by_endpoint(self, *args: Any, **kwargs: Any) -> int:
        """Take a target back. Always -1012."""
        return _refuse()


def _refuse() -> int:
    logger.error("NVMe over fabrics is not built; donate memory with mooncake_client instead")
    return NOT_SUPPORTED
