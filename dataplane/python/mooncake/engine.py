"""The transfer engine under Mooncake's name. This version does not have it yet.

The module can be imported so that programs that only look for it go on; `initialize` answers
-303 (not implemented) and says so in the log. No call pretends to have moved a byte.
"""

from __future__ import annotations

import enum
import logging

logger = logging.getLogger("mooncake.engine")

NOT_IMPLEMENTED = -303
FIRST_VERSION = "0.2"

SUPPORT_CUDA = False
SUPPORT_EFA = False
SUPPORT_HIP = False
SUPPORT_INTRA_NVLINK = False
SUPPORT_MNNVL = False
SUPPORT_MUSA = False


class TransferOpcode(enum.IntEnum):
    """Direction of a transfer."""

    Read = 0
    Write = 1


class TransferNotify:
    """A message that travels with a transfer."""

    def __init__(self, name: str = "", msg: str = "") -> None:
        self.name = name
        self.msg = msg


class TransferEngine:
    """Placeholder for the transfer engine: cannot be initialized in this version."""

    TransferOpcode = TransferOpcode

    def initialize(
        self, local_hostname: str, metadata_server: str, protocol: str, device_name: str
    ) -> int:
        """Return -303: the engine comes with a later version."""
        logger.error(
            "The transfer engine is not part of this version of perigee-mooncake; it is planned "
            "for %s. The store (mooncake.store) does not need it",
            FIRST_VERSION,
        )
        return NOT_IMPLEMENTED

    def initialize_ext(
        self,
        local_hostname: str,
        metadata_server: str,
        protocol: str,
        device_name: str,
        metadata_type: str,
    ) -> int:
        """Return -303, as `initialize`."""
        return self.initialize(local_hostname, metadata_server, protocol, device_name)

    def __getattr__(self, name: str) -> object:
        raise AttributeError(
            f"TransferEngine.{name} is not part of this version of perigee-mooncake; "
            f"it is planned for {FIRST_VERSION}"
        )
