"""The transfer engine. `TransferEngine` is the class that inference engines call.

Calls answer 0 or what they say, or a negative code (-1 in general, -3 an address that is not
registered, -7 a range that overlaps a registered one, -101 a name that does not resolve, -102 a
peer that does not answer, -303 something this build does not have). They do not raise for what goes
wrong with a transfer; the log of `mooncake.engine` says what it was. Addresses are integers such as
`tensor.data_ptr()`.
"""

from __future__ import annotations

from ._perigee import InnerTransferEngine, TransferEngine, TransferNotify, TransferOpcode
from ._received import ReceivedData, ReceivedTensor
from ._rpc import RpcInterface, create_rpc_client, create_rpc_server
from ._shared_segment import SharedSegment

CoroRPCInterface = RpcInterface

# Nothing is built against a vendor's libraries; NICs and drivers are looked for at run time.
SUPPORT_CUDA = False
SUPPORT_EFA = False
SUPPORT_HIP = False
SUPPORT_INTRA_NVLINK = False
SUPPORT_MNNVL = False
SUPPORT_MUSA = False

Read = TransferOpcode.Read
Write = TransferOpcode.Write

__all__ = [
    "SUPPORT_CUDA",
    "SUPPORT_EFA",
    "SUPPORT_HIP",
    "SUPPORT_INTRA_NVLINK",
    "SUPPORT_MNNVL",
    "SUPPORT_MUSA",
    "CoroRPCInterface",
    "InnerTransferEngine",
    "Read",
    "ReceivedData",
    "ReceivedTensor",
    "RpcInterface",
    "SharedSegment",
    "TransferEngine",
    "TransferNotify",
    "TransferOpcode",
    "Write",
    "create_rpc_client",
    "create_rpc_server",
]
