"""Mooncake's `tent` module over Perigee's engine: the same classes, calls and numbers.

Requests go to the engine one by one and each has its status. What the engine does not have raises
`tent.NotImplementedError` in one sentence: cancelling, other permissions, a peer's ranges.
"""

from .engine import TransferEngine
from .errors import (
    AddressNotRegisteredError,
    CudaError,
    DeviceNotFoundError,
    InternalError,
    InvalidArgumentError,
    InvalidEntryError,
    MetadataError,
    NotImplementedError,
    RdmaError,
    RpcServiceError,
    TentException,
)
from .guards import BatchGuard, MemoryGuard
from .types import (
    LOCAL_SEGMENT_ID,
    PRIO_HIGH,
    PRIO_LOW,
    PRIO_MEDIUM,
    IntentType,
    MemoryOptions,
    Notification,
    OpCode,
    Permission,
    Request,
    SegmentInfo,
    SegmentInfoBuffer,
    SegmentInfoType,
    TransferStatus,
    TransferStatusEnum,
    TransportType,
)
from .types import ANYWHERE as kWildcardLocation

# The members of these enums are names of the module too, as Mooncake exports them.
for _enum in (OpCode, TransferStatusEnum, Permission, TransportType, IntentType, SegmentInfoType):
    globals().update(_enum.__members__)
del _enum

__all__ = [
    "LOCAL_SEGMENT_ID",
    "PRIO_HIGH",
    "PRIO_LOW",
    "PRIO_MEDIUM",
    "AddressNotRegisteredError",
    "BatchGuard",
    "CudaError",
    "DeviceNotFoundError",
    "IntentType",
    "InternalError",
    "InvalidArgumentError",
    "InvalidEntryError",
    "MemoryGuard",
    "MemoryOptions",
    "MetadataError",
    "NotImplementedError",
    "Notification",
    "OpCode",
    "Permission",
    "RdmaError",
    "Request",
    "RpcServiceError",
    "SegmentInfo",
    "SegmentInfoBuffer",
    "SegmentInfoType",
    "TentException",
    "TransferEngine",
    "TransferStatus",
    "TransferStatusEnum",
    "TransportType",
    "kWildcardLocation",
]
