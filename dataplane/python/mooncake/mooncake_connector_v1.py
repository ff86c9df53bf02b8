"""vLLM's connector for prefill and decode on several instances, under its path in Mooncake's wheel.

vLLM has this connector itself since it left Mooncake's wheel, and it calls `mooncake.engine`. The names
here are vLLM's own; without a vLLM that has them, using one raises ImportError.
"""

from __future__ import annotations

import importlib
from typing import Any

# The newest place is the first.
_PLACES = (
    "vllm.distributed.kv_transfer.kv_connector.v1.mooncake.mooncake_connector",
    "vllm.distributed.kv_transfer.kv_connector.v1.mooncake_connector",
)
__all__ = [
    "MooncakeConnector",
    "MooncakeConnectorMetadata",
    "MooncakeConnectorScheduler",
    "MooncakeConnectorWorker",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    for place in _PLACES:
        try:
            found = importlib.import_module(place)
        except ModuleNotFoundError as error:
            if error.name and (place + ".").startswith(error.name + "."):
                continue
            raise
        return getattr(found, name)
    raise ImportError(f"{name} is vLLM's: install a vLLM that has its MooncakeConnector")
