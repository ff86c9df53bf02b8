"""Names of features that are not built: they can be imported, and say so when they are used."""

from __future__ import annotations

import logging
from typing import Any

logger = logging.getLogger("mooncake.store")

NOT_SUPPORTED = -1012


class EngramStoreConfig:
    """Settings of an `EngramStore`, kept as given."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        self.arguments = args
        self.__dict__.update(settings)


class EngramStore:
    """Embedding tables in the store. Not built: making one raises NotImplementedError."""

    def __init__(self, store: Any = None, config: Any = None) -> None:
        raise NotImplementedError(
            "Engram tables are not built; store their rows as objects with batch_put_from"
        )


class MooncakeDistributedNoFRegister:
    """Registration of NVMe-over-fabrics targets. Not built: both calls log and return -1012."""

    def real_register(self, *args: Any, **kwargs: Any) -> int:
        """Register a target. Always -1012."""
        return _refuse()

    def real_unregister_by_endpoint(self, *args: Any, **kwargs: Any) -> int:
        """Take a target back. Always -1012."""
        return _refuse()


class QueryTaskResponse:
    """What `query_task` says of a task."""

    def __init__(
        self,
        id: tuple[int, int] = (0, 0),
        type: Any = None,
        status: Any = None,
        created_at_ms_epoch: int = 0,
        last_updated_at_ms_epoch: int = 0,
        assigned_client: tuple[int, int] = (0, 0),
        message: str = "",
    ) -> None:
        self.id = id
        self.type = type
        self.status = status
        self.created_at_ms_epoch = created_at_ms_epoch
        self.last_updated_at_ms_epoch = last_updated_at_ms_epoch
        self.assigned_client = assigned_client
        self.message = message


def _refuse() -> int:
    logger.error("NVMe over fabrics is not built; donate memory with mooncake_client instead")
    return NOT_SUPPORTED
