"""Names of features that are not built: they can be imported, and say so when they are used."""

from __future__ import annotations

import logging
from typing import Any

logger = logging.getLogger("mooncake.store")

NOT_SUPPORTED = -1012


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
