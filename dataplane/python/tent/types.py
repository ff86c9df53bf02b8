"""What callers of `tent` pass: requests, states, options. The numbers are Mooncake's."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, IntEnum

LOCAL_SEGMENT_ID = 0
ANYWHERE = "*"
PRIO_HIGH, PRIO_MEDIUM, PRIO_LOW = range(3)


class OpCode(IntEnum):
    """Direction of a transfer, seen from the caller."""

    READ = 0
    WRITE = 1


class TransferStatusEnum(IntEnum):
    """How far a transfer is."""

    INITIAL = 0
    PENDING = 1
    INVALID = 2
    CANCELED = 3
    COMPLETED = 4
    TIMEOUT = 5
    FAILED = 6


class Permission(IntEnum):
    """What peers may do with registered memory."""

    LocalReadWrite = 0
    GlobalReadOnly = 1
    GlobalReadWrite = 2


class IntentType(IntEnum):
    """What a transfer is for. It has no effect here."""

    INTENT_UNSPEC = 0
    FOREGROUND_GET = 1
    BACKGROUND_PREFETCH = 2
    MIGRATION = 3
    CHECKPOINT = 4
    WEIGHT_LOADING = 5
    STAGING_INTERNAL = 6


class SegmentInfoType(Enum):
    """What a segment is made of."""

    Memory = 0
    File = 1


TransportType = IntEnum(
    "TransportType",
    "UNSPEC RDMA MNNVL SHM NVLINK GDS IOURING TCP AscendDirect SUNRISE_LINK TPU UB MPCOMM",
    start=0,
)

# Words of the engine for the transports that it has.
HINTS: dict[int, str] = {
    TransportType.UNSPEC: "",
    TransportType.RDMA: "rdma",
    TransportType.TCP: "tcp",
    TransportType.SHM: "shm",
}


@dataclass
class Notification:
    """A message to a peer: what it is about, and its text."""

    name: str = ""
    msg: str = ""


@dataclass
class Request:
    """One range to move: `length` bytes at `source` here, `target_offset` is an address there.

    `transport_hint` pins a transport. `priority`, `policy_name`, `deadline_ns` and `intent_type`
    are hints for a scheduler that this engine does not have.
    """

    opcode: OpCode = OpCode.READ
    source: int = 0
    target_id: int = LOCAL_SEGMENT_ID
    target_offset: int = 0
    length: int = 0
    priority: int = PRIO_HIGH
    transport_hint: int = TransportType.UNSPEC
    policy_name: str | None = None
    deadline_ns: int = 0
    intent_type: IntentType = IntentType.INTENT_UNSPEC


@dataclass
class TransferStatus:
    """State of a transfer, and the bytes that have arrived."""

    state: TransferStatusEnum = TransferStatusEnum.INITIAL
    bytes: int = 0


@dataclass
class SegmentInfoBuffer:
    """A range of a segment."""

    base: int = 0
    length: int = 0
    location: str = ANYWHERE


@dataclass
class SegmentInfo:
    """What a segment has."""

    type: SegmentInfoType = SegmentInfoType.Memory
    buffers: list[SegmentInfoBuffer] = field(default_factory=list)


@dataclass
class MemoryOptions:
    """How memory is registered: where it lies, and what peers may do."""

    location: str = ANYWHERE
    perm: Permission = Permission.GlobalReadWrite
    type: int = TransportType.UNSPEC
    shm_path: str = ""
    shm_offset: int = 0
    internal: bool = False
