"""Types of `mooncake.engine`. Lengths are bytes, addresses integers, batches numbers.

Codes: 0 success, negative failure; -1 in general, -3 an address that is not registered, -7 a range
that overlaps a registered one, -101 a name that does not resolve, -102 a peer that does not answer,
-200 the metadata server, -303 something this build does not have.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, final

from ._received import ReceivedData as ReceivedData
from ._received import ReceivedTensor as ReceivedTensor

SUPPORT_CUDA: bool
SUPPORT_EFA: bool
SUPPORT_HIP: bool
SUPPORT_INTRA_NVLINK: bool
SUPPORT_MNNVL: bool
SUPPORT_MUSA: bool

@final
class TransferOpcode:
    """Direction of a transfer, seen from the caller."""

    __members__: ClassVar[dict[str, TransferOpcode]]
    Read: ClassVar[TransferOpcode]
    Write: ClassVar[TransferOpcode]
    def __init__(self, value: int) -> None: ...
    @property
    def name(self) -> str: ...
    @property
    def value(self) -> int: ...
    def __int__(self) -> int: ...
    def __index__(self) -> int: ...

Read: TransferOpcode
Write: TransferOpcode

@final
class TransferNotify:
    """A message to a peer: what it is about, and its text."""

    name: str
    msg: str
    def __init__(self, name: str = "", msg: str = "") -> None: ...

@final
class InnerTransferEngine:
    """A running engine, for `MooncakeDistributedStore.setup(engine=...)`."""

class TransferEngine:
    """Moves bytes between registered memory of processes, on any host."""

    TransferOpcode: ClassVar[type[TransferOpcode]]
    def __init__(self) -> None: ...
    def initialize(
        self, local_hostname: str, metadata_server: str, protocol: str, device_name: str
    ) -> int:
        """Start the engine; metadata_server "P2PHANDSHAKE" needs no server.

        protocol: "tcp", "rdma", "shm", several with commas, or "" to choose.
        """

    def initialize_ext(
        self,
        local_hostname: str,
        metadata_server: str,
        protocol: str,
        device_name: str,
        metadata_type: str,
    ) -> int:
        """As `initialize`, with the kind of the metadata server apart from its address."""

    def get_rpc_port(self) -> int:
        """Port that peers name this engine by with P2PHANDSHAKE; -1 before `initialize`."""

    def get_local_topology(self, device_name: str | None = None) -> str:
        """JSON: which NICs serve which memory; needs no `initialize`."""

    def get_first_buffer_address(self, segment_name: str) -> int:
        """Address of the first registered buffer of a segment; 0 on failure."""

    def get_notifies(self) -> list[TransferNotify]:
        """Messages that arrived since the last call, oldest first."""

    def send_probe(self, peer_server_name: str) -> int:
        """0 when the peer is alive."""

    def warmup_efa_segment(self, segment_name: str) -> int:
        """0: connections need no warming up."""

    def get_engine(self) -> InnerTransferEngine | None:
        """The running engine, to be shared with a store."""

    def get_engine_ptr(self) -> int:
        """A number that tells running engines apart; 0 before `initialize`."""

    def register_memory(self, buffer_addr: int, capacity: int, location: str = "*") -> int:
        """Let peers read and write this memory, until `unregister_memory`."""

    def unregister_memory(self, buffer_addr: int) -> int:
        """Undo `register_memory` of the range that starts here."""

    def batch_register_memory(
        self, buffer_addresses: Sequence[int], capacities: Sequence[int], location: str = "*"
    ) -> int:
        """Register all ranges, or none of them."""

    def batch_unregister_memory(self, buffer_addresses: Sequence[int]) -> int:
        """Unregister all ranges that start at these addresses."""

    def allocate_managed_buffer(self, length: int) -> int:
        """Address of registered memory of the engine; 0 on failure."""

    def free_managed_buffer(self, buffer_addr: int, length: int) -> int:
        """Give memory of `allocate_managed_buffer` back."""

    def write_bytes_to_buffer(self, dest_address: int, buffer: bytes | str, length: int) -> int:
        """Copy bytes to an address of this process."""

    def read_bytes_from_buffer(self, source_address: int, length: int) -> bytes:
        """Bytes at an address of this process; b"" if there is no memory."""

    def transfer_sync_write(
        self,
        target_hostname: str,
        buffer: int,
        peer_buffer_address: int,
        length: int,
        transport_hint: str = "",
    ) -> int:
        """Copy from `buffer` here to the peer and wait: 0 or -1."""

    def transfer_sync_read(
        self,
        target_hostname: str,
        buffer: int,
        peer_buffer_address: int,
        length: int,
        transport_hint: str = "",
    ) -> int:
        """Copy from the peer to `buffer` here and wait: 0 or -1."""

    def transfer_sync(
        self,
        target_hostname: str,
        buffer: int,
        peer_buffer_address: int,
        length: int,
        opcode: TransferOpcode,
        notify: TransferNotify | None = None,
        transport_hint: str = "",
    ) -> int:
        """Copy in the direction of `opcode` and wait: 0 or -1; then send `notify`."""

    def batch_transfer_sync_write(
        self,
        target_hostname: str,
        buffers: Sequence[int],
        peer_buffer_addresses: Sequence[int],
        lengths: Sequence[int],
        transport_hint: str = "",
    ) -> int:
        """`transfer_sync_write` of several buffers at once: 0 or -1."""

    def batch_transfer_sync_read(
        self,
        target_hostname: str,
        buffers: Sequence[int],
        peer_buffer_addresses: Sequence[int],
        lengths: Sequence[int],
        transport_hint: str = "",
    ) -> int:
        """`transfer_sync_read` of several buffers at once: 0 or -1."""

    def batch_transfer_sync(
        self,
        target_hostname: str,
        buffers: Sequence[int],
        peer_buffer_addresses: Sequence[int],
        lengths: Sequence[int],
        opcode: TransferOpcode,
        notify: TransferNotify | None = None,
        transport_hint: str = "",
    ) -> int:
        """`transfer_sync` of several buffers at once: 0 or -1."""

    def transfer_submit_write(
        self,
        target_hostname: str,
        buffer: int,
        peer_buffer_address: int,
        length: int,
        transport_hint: str = "",
    ) -> int:
        """Start a write; number of its batch, or 0."""

    def batch_transfer_async_write(
        self,
        target_hostname: str,
        buffers: Sequence[int],
        peer_buffer_addresses: Sequence[int],
        lengths: Sequence[int],
        transport_hint: str = "",
    ) -> int:
        """Start writes; number of their batch, or 0."""

    def batch_transfer_async_read(
        self,
        target_hostname: str,
        buffers: Sequence[int],
        peer_buffer_addresses: Sequence[int],
        lengths: Sequence[int],
        transport_hint: str = "",
    ) -> int:
        """Start reads; number of their batch, or 0."""

    def batch_transfer_async(
        self,
        target_hostname: str,
        buffers: Sequence[int],
        peer_buffer_addresses: Sequence[int],
        lengths: Sequence[int],
        opcode: TransferOpcode,
        transport_hint: str = "",
    ) -> int:
        """Start transfers in the direction of `opcode`; number of their batch, or 0."""

    def transfer_check_status(self, batch_id: int) -> int:
        """1 done, 0 running, -1 failed, -2 deadline passed; the number is free after all but 0."""

    def get_batch_transfer_status(self, batch_ids: Sequence[int]) -> int:
        """Wait for batches: 0 when all bytes of all are there, else -1; their numbers are free."""

    def transfer_write_on_cuda(
        self,
        target_hostname: str,
        buffer: int,
        peer_buffer_address: int,
        length: int,
        stream_ptr: int = 0,
    ) -> int:
        """Not there: -303."""

    def transfer_read_on_cuda(
        self,
        target_hostname: str,
        buffer: int,
        peer_buffer_address: int,
        length: int,
        stream_ptr: int = 0,
    ) -> int:
        """Not there: -303."""

    def batch_transfer_write_on_cuda(
        self,
        target_hostname: str,
        buffers: Sequence[int],
        peer_buffer_addresses: Sequence[int],
        lengths: Sequence[int],
        stream_ptr: int = 0,
    ) -> int:
        """Not there: -303."""

    def batch_transfer_read_on_cuda(
        self,
        target_hostname: str,
        buffers: Sequence[int],
        peer_buffer_addresses: Sequence[int],
        lengths: Sequence[int],
        stream_ptr: int = 0,
    ) -> int:
        """Not there: -303."""

class RpcInterface:
    """Sends bytes and tensors to peers, and calls back for those that arrive."""

    def __init__(self) -> None: ...
    def initialize(
        self,
        listen_address: str = "",
        thread_count: int = 0,
        timeout_seconds: int = 30,
        pool_size: int = 100,
    ) -> bool: ...
    def initialize_client(self, pool_size: int = 100, timeout_seconds: int = 30) -> bool: ...
    def initialize_server(
        self, listen_address: str, thread_count: int = 8, timeout_seconds: int = 30
    ) -> bool: ...
    def start_server(self) -> bool: ...
    def start_server_async(self) -> bool: ...
    def stop_server(self) -> None: ...
    def set_data_receive_callback(self, callback: Callable[[ReceivedData], object]) -> None: ...
    def set_tensor_receive_callback(self, callback: Callable[[ReceivedTensor], object]) -> None: ...
    def send_data(self, target_address: str, data: bytes) -> int: ...
    def send_tensor(self, target_address: str, tensor: Any) -> int: ...
    def send_data_async(
        self, target_address: str, data: bytes, loop: asyncio.AbstractEventLoop
    ) -> asyncio.Future[int]: ...
    def send_tensor_async(
        self, target_address: str, tensor: Any, loop: asyncio.AbstractEventLoop
    ) -> asyncio.Future[int]: ...

CoroRPCInterface = RpcInterface

def create_rpc_client(local_rank: int = 0, world_size: int = 1) -> RpcInterface: ...
def create_rpc_server(local_rank: int = 0, world_size: int = 1) -> RpcInterface: ...

class SharedSegment:
    """Memory shared between the ranks of a group; made with `create`, usable after `complete`."""

    @staticmethod
    def supported(mmap: bool = True, host_register: bool = False) -> bool: ...
    @classmethod
    def create(
        cls,
        name: str,
        size: int,
        world_size: int,
        rank_id: int,
        owner_rank: int = 0,
        device_id: int = 0,
        mmap: bool = True,
        host_register: bool = False,
    ) -> tuple[SharedSegment, bytes]: ...
    def complete(self, blobs: list[bytes]) -> None: ...
    def ready(self) -> bool: ...
    def base_addr(self) -> int: ...
    def device_addr(self) -> int: ...
    def size(self) -> int: ...
