"""Types of `mooncake.store`. Sizes and offsets are bytes, addresses integers, times as named.

Codes: 0 success, negative failure; -704 no such key, -706 a lease is running, -200 no space,
-600 a wrong argument or a store that is not set up, -702 no replica could be read, -707 the lease
ended during a read, -800 a put did not arrive, -900 no master, -901 a deadline passed,
-1012 not built, -1700 the tenant's quota is used up, -1701 the tenant has no quota.
"""

from collections.abc import Sequence
from typing import Any, ClassVar, TypeAlias, final, overload

from .buffer_pool import BufferLease as BufferLease
from .buffer_pool import BufferLeaseView as BufferLeaseView
from .buffer_pool import BufferPool as BufferPool
from .buffer_pool import RegisteredBufferLease as RegisteredBufferLease
from .buffer_pool import RegisteredBufferLeaseView as RegisteredBufferLeaseView
from .buffer_pool import RegisteredBufferPool as RegisteredBufferPool

Buffer: TypeAlias = bytes | bytearray | memoryview | Any
"""Any object with a contiguous buffer, of any item type."""

@final
class ObjectDataType:
    """What the bytes of an object are; for statistics only."""

    __members__: ClassVar[dict[str, ObjectDataType]]
    UNKNOWN: ClassVar[ObjectDataType]
    KVCACHE: ClassVar[ObjectDataType]
    TENSOR: ClassVar[ObjectDataType]
    WEIGHT: ClassVar[ObjectDataType]
    SAMPLE: ClassVar[ObjectDataType]
    ACTIVATION: ClassVar[ObjectDataType]
    GRADIENT: ClassVar[ObjectDataType]
    OPTIMIZER_STATE: ClassVar[ObjectDataType]
    METADATA: ClassVar[ObjectDataType]
    GENERAL: ClassVar[ObjectDataType]
    def __init__(self, value: int) -> None: ...
    @property
    def name(self) -> str: ...
    @property
    def value(self) -> int: ...
    def __int__(self) -> int: ...
    def __index__(self) -> int: ...

@final
class SoftPinAction:
    """What a put does to the soft pin of an object."""

    __members__: ClassVar[dict[str, SoftPinAction]]
    PRESERVE: ClassVar[SoftPinAction]
    ENABLE: ClassVar[SoftPinAction]
    DISABLE: ClassVar[SoftPinAction]
    def __init__(self, value: int) -> None: ...
    @property
    def name(self) -> str: ...
    @property
    def value(self) -> int: ...
    def __int__(self) -> int: ...
    def __index__(self) -> int: ...

@final
class ReplicaStatus:
    """State of one replica."""

    __members__: ClassVar[dict[str, ReplicaStatus]]
    UNDEFINED: ClassVar[ReplicaStatus]
    INITIALIZED: ClassVar[ReplicaStatus]
    PROCESSING: ClassVar[ReplicaStatus]
    COMPLETE: ClassVar[ReplicaStatus]
    REMOVED: ClassVar[ReplicaStatus]
    FAILED: ClassVar[ReplicaStatus]
    def __init__(self, value: int) -> None: ...
    @property
    def name(self) -> str: ...
    @property
    def value(self) -> int: ...
    def __int__(self) -> int: ...
    def __index__(self) -> int: ...

@final
class TaskType:
    """What a background task does."""

    __members__: ClassVar[dict[str, TaskType]]
    REPLICA_COPY: ClassVar[TaskType]
    REPLICA_MOVE: ClassVar[TaskType]
    def __init__(self, value: int) -> None: ...
    @property
    def name(self) -> str: ...
    @property
    def value(self) -> int: ...
    def __int__(self) -> int: ...
    def __index__(self) -> int: ...

@final
class TaskStatus:
    """How far a background task is."""

    __members__: ClassVar[dict[str, TaskStatus]]
    PENDING: ClassVar[TaskStatus]
    PROCESSING: ClassVar[TaskStatus]
    SUCCESS: ClassVar[TaskStatus]
    FAILED: ClassVar[TaskStatus]
    def __init__(self, value: int) -> None: ...
    @property
    def name(self) -> str: ...
    @property
    def value(self) -> int: ...
    def __int__(self) -> int: ...
    def __index__(self) -> int: ...

class ReplicateConfig:
    """How a put places and keeps its objects.

    Attributes: replica_num (copies on distinct segments, 1 or more), soft_pin_action,
    soft_pin_ttl_ms (milliseconds or None for the master's default), with_soft_pin (older spelling
    of SoftPinAction.ENABLE), with_hard_pin (never evicted), preferred_segments (names "host:port",
    tried in order), preferred_segment (one name, older spelling), prefer_alloc_in_same_node (keep a
    batch on one segment), data_type, group_ids (None, or one group name per key of the batch).
    nof_replica_num, dfs_replica_num and preferred_nof_segments belong to storage this build does
    not have: a put with either number above 0 answers -1012.
    """

    replica_num: int
    nof_replica_num: int
    dfs_replica_num: int
    soft_pin_action: SoftPinAction
    soft_pin_ttl_ms: int | None
    with_soft_pin: bool
    with_hard_pin: bool
    preferred_segments: list[str]
    preferred_nof_segments: list[str]
    preferred_segment: str
    prefer_alloc_in_same_node: bool
    data_type: ObjectDataType
    group_ids: list[str] | None
    def __init__(self) -> None: ...

@final
class Descriptor:
    """Address of a replica: buffer_address, size in bytes, transport_endpoint "host:port"."""

    @property
    def size(self) -> int: ...
    @property
    def buffer_address(self) -> int: ...
    @property
    def transport_endpoint(self) -> str: ...

@final
class MemoryDescriptor:
    """A replica in memory."""

    @property
    def buffer_descriptor(self) -> Descriptor: ...

@final
class DiskDescriptor:
    """A replica in a file: file_path, object_size in bytes."""

    @property
    def file_path(self) -> str: ...
    @property
    def object_size(self) -> int: ...

BufferDescriptor = Descriptor

@final
class ReplicaDescriptor:
    """One replica of an object: its status and, for replicas in memory, its address."""

    @property
    def status(self) -> ReplicaStatus:
        """State of the replica."""
    def is_memory_replica(self) -> bool:
        """Whether the replica lies in memory."""
    def is_disk_replica(self) -> bool:
        """False: this build has no replicas on shared disks."""
    def is_local_disk_replica(self) -> bool:
        """Whether the replica lies on its node's own disk."""
    def get_memory_descriptor(self) -> MemoryDescriptor:
        """The address of the replica. Raises RuntimeError if it does not lie in memory."""
    def get_disk_descriptor(self) -> DiskDescriptor:
        """Raises RuntimeError: there are no replicas on shared disks."""

@final
class BufferHandle:
    """An object's bytes: `ptr()`, `size()`, `len()` and the buffer protocol (writable, format "B").

    `memoryview(handle)`, slices of it and `torch.frombuffer(handle, ...)` see the memory without a
    copy and keep it alive. Writing to it changes nothing in the cluster.
    """

    def ptr(self) -> int:
        """Address of the first byte."""
    def size(self) -> int:
        """Length in bytes."""
    def __len__(self) -> int: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

@final
class MooncakeHostMemAllocator:
    """Page-aligned host memory for pools that stores read and write: alloc(bytes) and
    free(address).
    """

    def __init__(self) -> None: ...
    def alloc(self, size: int) -> int:
        """Returns the address of `size` bytes, page-aligned and zero; 0 when there is no memory.

        The memory lives until `free`, whatever becomes of this object.
        """
    def free(self, ptr: int) -> int:
        """Free memory of `alloc`. Returns 0, or -600 for an address that was not given out."""

class MooncakeDistributedStore:
    """The store client. Methods answer 0 or a count, or a negative code; they raise `TypeError` for
    arguments of a wrong type and nothing else. All may be called from several threads at once.
    """

    def __init__(self) -> None: ...
    @overload
    def setup(
        self,
        local_hostname: str,
        metadata_server: str,
        global_segment_size: int,
        local_buffer_size: int,
        protocol: str,
        rdma_devices: str,
        master_server_addr: str,
        engine: Any = None,
        enable_ssd_offload: bool = False,
        ssd_offload_path: str = "",
        tenant_id: str = "default",
        enable_client_http_server: bool = False,
        client_http_port: int = 9300,
        ssd_key_file: str = "",
    ) -> int:
        """setup(local_hostname, metadata_server, global_segment_size, local_buffer_size, protocol,
        rdma_devices, master_server_addr, engine=None, enable_ssd_offload=False,
        ssd_offload_path="", tenant_id="default", enable_client_http_server=False,
        client_http_port=9300, ssd_key_file="") -> int
        setup(config: dict) -> int

        Join the cluster. Sizes are bytes; in the dict form they may be texts like "4gb", and
        device_name and master_server_address are accepted for rdma_devices and master_server_addr.
        Returns 0, -600 for values that make no sense or a metadata server that does not answer
        (P2PHANDSHAKE needs none), -900 when the master cannot be reached.
        Raises TypeError for a missing, unknown or wrongly typed argument.
        """
    @overload
    def setup(self, config: dict[str, Any]) -> int: ...
    def alloc_from_mem_pool(self, size: int) -> int:
        """Returns the address of `size` bytes of the pool given to `setup_dummy`; 0 when it is used
        up.

        The memory lives until `close()`.
        """
    def allocate_and_mount_segment(
        self,
        size: int,
        protocol: str = "tcp",
        location: str = "",
    ) -> dict[str, Any]:
        """Lend `size` more bytes of memory of this process, of NUMA node N for location "cpu:N".

        Returns {"ret": 0 or a negative code, "segment_ids": list of str}.
        """
    def batch_get_buffer(self, keys: Sequence[str]) -> list[BufferHandle | None]:
        """Returns a `BufferHandle` per key; None for each miss."""
    def batch_get_into(
        self,
        keys: Sequence[str],
        buffer_ptrs: Sequence[int],
        sizes: Sequence[int],
    ) -> list[int]:
        """Read one object per key into its buffer. Returns bytes read or a negative code per key.
        """
    def batch_get_into_multi_buffer_ranges(
        self,
        keys: Sequence[str],
        all_buffer_ptrs: Sequence[Sequence[int]],
        all_sizes: Sequence[Sequence[int]],
        all_src_offsets: Sequence[Sequence[int]],
    ) -> list[int]:
        """Read ranges of keys in a read session: piece k of key i is `all_sizes[i][k]` bytes from
        offset `all_src_offsets[i][k]` of the object, to address `all_buffer_ptrs[i][k]`.

        Returns the bytes read or a negative code per key; -600 without an open session.
        """
    def batch_get_into_multi_buffers(
        self,
        keys: Sequence[str],
        all_buffer_ptrs: Sequence[Sequence[int]],
        all_sizes: Sequence[Sequence[int]],
        prefer_alloc_in_same_node: bool = False,
    ) -> list[int]:
        """Read one object per key, each spread over several buffers in order.

        Returns bytes read or a negative code per key; -800 if the buffers have more room than the
        object has bytes: callers look at the sign alone, and would take what was in the rest for
        theirs. `prefer_alloc_in_same_node` is accepted for older callers: all keys of a batch are
        in flight together anyway.
        """
    def batch_get_replica_desc(self, keys: Sequence[str]) -> dict[str, list[ReplicaDescriptor]]:
        """Returns a dict of key to `ReplicaDescriptor`s, without the keys that were not found."""
    def batch_get_session_end(self, keys: Sequence[str]) -> int:
        """Close one read session of each key. Returns 0."""
    def batch_get_session_start(self, keys: Sequence[str]) -> list[int]:
        """Open a read session of each key, for `batch_get_into_multi_buffer_ranges`.

        Returns 0 or a negative code per key (-704 for a miss). Sessions of one key nest.
        """
    def batch_get_tensor(self, keys: Sequence[str]) -> list[Any]:
        """Return a tensor or None per key."""
    def batch_get_tensor_into(
        self,
        keys: Sequence[str],
        buffer_ptrs: Sequence[int],
        sizes: Sequence[int],
    ) -> list[Any]:
        """Read several tensors into memory; a tensor over it or None per key."""
    def batch_get_tensor_into_cuda(
        self,
        keys: Sequence[str],
        tensors_list: Sequence[Any],
    ) -> list[int]:
        """Copy stored tensors into given ones; bytes or a negative code per key."""
    def batch_get_tensor_with_tp(
        self,
        base_keys: Sequence[str],
        tp_rank: int = 0,
        tp_size: int = 1,
    ) -> list[Any]:
        """Return the shard of one rank, or None, per key."""
    def batch_get_tensor_with_tp_into(
        self,
        base_keys: Sequence[str],
        buffer_ptrs: Sequence[int],
        sizes: Sequence[int],
        tp_rank: int = 0,
        tp_size: int = 1,
    ) -> list[Any]:
        """Read the shards of one rank into memory; a tensor over it or None per key."""
    def batch_is_exist(self, keys: Sequence[str]) -> list[int]:
        """Returns a list of 1, 0 or a negative code per key."""
    def batch_pub_tensor(
        self,
        keys: Sequence[str],
        tensors_list: Sequence[Any],
        config: ReplicateConfig | None = None,
    ) -> list[int]:
        """Store several tensors as `config` says; a code per key."""
    def batch_pub_tensor_with_tp(
        self,
        base_keys: Sequence[str],
        tensors_list: Sequence[Any],
        config: ReplicateConfig | None = None,
        tp_rank: int = 0,
        tp_size: int = 1,
        split_dim: int = 0,
    ) -> list[int]:
        """As `batch_put_tensor_with_tp`, placed as `config` says."""
    def batch_put_from(
        self,
        keys: Sequence[str],
        buffer_ptrs: Sequence[int],
        sizes: Sequence[int],
        config: ReplicateConfig | None = None,
    ) -> list[int]:
        """Store one buffer per key. Returns a code per key as `put_from`; failures are
        independent.
        """
    def batch_put_from_multi_buffer_ranges(
        self,
        keys: Sequence[str],
        all_buffer_ptrs: Sequence[Sequence[int]],
        all_sizes: Sequence[Sequence[int]],
        all_dst_offsets: Sequence[Sequence[int]],
    ) -> list[int]:
        """Write ranges of objects in a write session. Returns the bytes written or a negative code
        per key; -600 without an open session and when a range does not fit.
        """
    def batch_put_from_multi_buffers(
        self,
        keys: Sequence[str],
        all_buffer_ptrs: Sequence[Sequence[int]],
        all_sizes: Sequence[Sequence[int]],
        config: ReplicateConfig | None = None,
    ) -> list[int]:
        """Store one object per key, each gathered from several buffers in order. Returns a code per
        key.
        """
    def batch_put_session_end(self, keys: Sequence[str]) -> list[int]:
        """Store the objects of write sessions and close them. Returns a code per key as
        `put_from`.
        """
    def batch_put_session_revoke(self, keys: Sequence[str]) -> list[int]:
        """Close write sessions without storing anything. Returns 0, or -600 without a session."""
    def batch_put_session_start(
        self,
        keys: Sequence[str],
        sizes: Sequence[int],
        config: ReplicateConfig | None = None,
    ) -> list[int]:
        """Open a write session of each key for an object of `sizes[i]` bytes, filled by ranges.

        Bytes never written are zero. Returns 0 or a negative code per key; -705 for a key that
        exists, -600 when this store has a session of the key, -200 when the sessions of this store
        hold too much memory.
        """
    def batch_put_tensor(self, keys: Sequence[str], tensors_list: Sequence[Any]) -> list[int]:
        """Store several tensors; a code per key."""
    def batch_put_tensor_from(
        self,
        keys: Sequence[str],
        buffer_ptrs: Sequence[int],
        sizes: Sequence[int],
    ) -> list[int]:
        """Store header and data of several tensors; a code per key."""
    def batch_put_tensor_with_tp(
        self,
        base_keys: Sequence[str],
        tensors_list: Sequence[Any],
        tp_rank: int = 0,
        tp_size: int = 1,
        split_dim: int = 0,
    ) -> list[int]:
        """Store the shards of several tensors; a code per tensor."""
    def batch_put_tensor_with_tp_from(
        self,
        base_keys: Sequence[str],
        buffer_ptrs: Sequence[int],
        sizes: Sequence[int],
        tp_rank: int = 0,
        tp_size: int = 1,
        split_dim: int = 0,
    ) -> list[int]:
        """Store the shards of several tensors in memory; a code per tensor."""
    def batch_remove(self, keys: Sequence[str], force: bool = False) -> list[int]:
        """Remove several objects. Returns a code per key as `remove`."""
    def batch_replica_clear(self, keys: Sequence[str], segment_name: str = "") -> list[str]:
        """Drop the replicas of each key, on one segment ("host:port") or everywhere.

        Returns the keys that were cleared; a leased object or one of another client is not.
        """
    def batch_upsert_from(
        self,
        keys: Sequence[str],
        buffer_ptrs: Sequence[int],
        sizes: Sequence[int],
        config: ReplicateConfig | None = None,
    ) -> list[int]:
        """As `batch_put_from`, but replaces."""
    def batch_upsert_pub_tensor(
        self,
        keys: Sequence[str],
        tensors_list: Sequence[Any],
        config: ReplicateConfig | None = None,
    ) -> list[int]:
        """Store several tensors as `config` says, replacing older ones; a code per key."""
    def batch_upsert_tensor(self, keys: Sequence[str], tensors_list: Sequence[Any]) -> list[int]:
        """Store several tensors, replacing older ones; a code per key."""
    def batch_upsert_tensor_from(
        self,
        keys: Sequence[str],
        buffer_ptrs: Sequence[int],
        sizes: Sequence[int],
    ) -> list[int]:
        """Store header and data of several tensors, replacing older ones; a code per key."""
    def close(self) -> int:
        """Withdraw this client's memory and leave the cluster. Returns 0, also when nothing is
        open.
        """
    def create_copy_task(self, key: str, targets: Sequence[str]) -> tuple[tuple[int, int], int]:
        """Have an object copied to segments, given by their names ("host:port" of the owners).

        Returns (task id, 0), the id being a pair of integers, or ((0, 0), code): -704 unknown key,
        -703 unfinished, -600 no target or one that is not mounted, -1010 a target that is being
        emptied, -1401 too many tasks wait. A target that holds the object already is served.
        """
    def create_move_task(self, key: str, source: str, target: str) -> tuple[tuple[int, int], int]:
        """Have the replica of an object on segment `source` moved to segment `target`.

        Returns as `create_copy_task`; -600 also where `source` holds no replica or is `target`.
        """
    def get(self, key: str) -> bytes:
        """Returns the object's bytes; b"" for a miss or any failure."""
    def get_batch(self, keys: Sequence[str]) -> list[bytes]:
        """Returns the bytes of each object; b"" for each miss."""
    def get_buffer(self, key: str) -> BufferHandle | None:
        """Returns a `BufferHandle` with the object's bytes; None for a miss or any failure."""
    def get_hostname(self) -> str:
        """Returns "host:port", the name of this client's segments; "" when not set up."""
    def get_into(self, key: str, buffer_ptr: int, size: int) -> int:
        """Read an object into `size` bytes at address `buffer_ptr`.

        Returns the bytes read, -704 for a miss, -600 when the object is larger than `size`.
        """
    def get_into_ranges(
        self,
        buffer_ptrs: Sequence[int],
        all_keys: Sequence[Sequence[str]],
        all_dst_offsets: Sequence[Sequence[Sequence[int]]],
        all_src_offsets: Sequence[Sequence[Sequence[int]]],
        all_sizes: Sequence[Sequence[Sequence[int]]],
    ) -> list[list[list[int]]]:
        """Read ranges: for buffer i, key j and range k, `all_sizes[i][j][k]` bytes of the key from
        `all_src_offsets[i][j][k]` on, to `buffer_ptrs[i] + all_dst_offsets[i][j][k]`.

        Returns bytes read or a negative code for each, in the same nesting.
        """
    def get_offload_rpc_read_count(self) -> int:
        """Returns how often this client has asked owners of disks for objects: one for each owner in a
        call. Calls whose objects lie in memory are not counted.
        """
    def get_replica_desc(self, key: str) -> list[ReplicaDescriptor]:
        """Returns the `ReplicaDescriptor`s of an object; an empty list for a miss."""
    def get_size(self, key: str) -> int:
        """Returns the object's size in bytes, or a negative code (-704 for a miss)."""
    def get_tensor(self, key: str) -> Any:
        """Return the tensor in memory of its own; None for a miss or what is no tensor."""
    def get_tensor_into(self, key: str, buffer_ptr: int, size: int) -> Any:
        """Read header and data into memory; return a tensor over it, or None."""
    def get_tensor_into_cuda(self, key: str, tensor: Any) -> int:
        """Copy the stored tensor into `tensor`, on any device; return its bytes or a code."""
    def get_tensor_with_tp(
        self,
        key: str,
        tp_rank: int = 0,
        tp_size: int = 1,
        split_dim: int = 0,
    ) -> Any:
        """Return the shard of one rank, or None."""
    def get_tensor_with_tp_into(
        self,
        key: str,
        buffer_ptr: int,
        size: int,
        tp_rank: int = 0,
        tp_size: int = 1,
        split_dim: int = 0,
    ) -> Any:
        """Read the shard of one rank into memory; a tensor over it, or None."""
    def has_disks(self) -> bool:
        """Returns whether this client has disks, whether they can be used or not."""
    def health_check(self) -> int:
        """Returns 0 healthy, 1 not set up or closed, 2 master not reachable."""
    def init_all(
        self,
        protocol: str,
        device_name: str,
        mount_segment_size: int = 16777216,
    ) -> int:
        """Set up with one host's defaults, for tests: lends `mount_segment_size` bytes."""
    def is_exist(self, key: str) -> int:
        """Returns 1 the object exists, 0 it does not, or a negative code."""
    def load_tensor_from_safetensor(self, key: str | None = None, file_name: str = "") -> Any:
        """Return a tensor of a safetensors file, the only one if `key` is none of its; store it."""
    def mount_segment(
        self,
        path: str,
        size: int,
        offset: int = 0,
        protocol: str = "tcp",
        location: str = "",
    ) -> dict[str, Any]:
        """Lend `size` bytes of a file or shared-memory object from `offset` on, a multiple of the
        page size. They are overwritten; the file must not be cut before it is unmounted.

        Returns {"ret": 0 or a negative code, "segment_ids": list of str}; ret is -600 for a path
        that is no file to write, or a range that is not in it.
        """
    def pub_tensor(self, key: str, tensor: Any, config: ReplicateConfig | None = None) -> int:
        """Store a tensor as `config` says."""
    def pub_tensor_with_tp(
        self,
        key: str,
        tensor: Any,
        config: ReplicateConfig | None = None,
        tp_rank: int = 0,
        tp_size: int = 1,
        split_dim: int = 0,
    ) -> int:
        """As `put_tensor_with_tp`, placed as `config` says."""
    def put(self, key: str, value: Buffer, config: ReplicateConfig | None = None) -> int:
        """Store a copy of a contiguous bytes-like object: all its bytes, whatever its item type.

        Returns 0 (also when the key exists: the old value stays), -200 no space, -600 for an empty
        key or value or a store set up with local_buffer_size 0, -900 master not reachable, -1700 or
        -1701 for a tenant whose quota is used up or that has none.
        """
    def put_batch(
        self,
        keys: Sequence[str],
        values: Sequence[Buffer],
        config: ReplicateConfig | None = None,
    ) -> int:
        """Store several values. Returns 0, or the code of the first that failed; the others are
        stored.
        """
    def put_from(
        self,
        key: str,
        buffer_ptr: int,
        size: int,
        config: ReplicateConfig | None = None,
    ) -> int:
        """Store `size` bytes at address `buffer_ptr` without a copy in this process. Returns as
        `put`.
        """
    def put_from_with_metadata(
        self,
        key: str,
        buffer_ptr: int,
        metadata_buffer_ptr: int,
        size: int,
        metadata_size: int,
        config: ReplicateConfig | None = None,
    ) -> int:
        """Store metadata bytes followed by payload bytes as one object. Returns as `put_from`."""
    def put_parts(self, key: str, *args: Buffer, config: ReplicateConfig | None = None) -> int:
        """Store the concatenation of the parts as one object. Returns as `put`; 0 without any
        part.
        """
    def put_tensor(self, key: str, tensor: Any) -> int:
        """Store a tensor."""
    def put_tensor_from(self, key: str, buffer_ptr: int, size: int) -> int:
        """Store `size` bytes of header and data."""
    def put_tensor_with_tp(
        self,
        key: str,
        tensor: Any,
        tp_rank: int = 0,
        tp_size: int = 1,
        split_dim: int = 0,
    ) -> int:
        """Store all `tp_size` shards of a whole tensor; `tp_rank` does not matter."""
    def put_tensor_with_tp_from(
        self,
        key: str,
        buffer_ptr: int,
        size: int,
        tp_rank: int = 0,
        tp_size: int = 1,
        split_dim: int = 0,
    ) -> int:
        """Store all shards of the whole tensor whose header and data lie in memory."""
    def query_task(self, task_id: Sequence[int]) -> tuple[QueryTaskResponse | None, int]:
        """Ask how a task is.

        Returns (`QueryTaskResponse`, 0), or (None, code): -1400 for a task that the master does not
        know, or does not remember any more.
        """
    def register_buffer(self, buffer_ptr: int, size: int) -> int:
        """Tell the store of memory that later calls use, so that it can be pinned for zero copy.

        Returns 0; -600 for an empty range or one that overlaps a registered one.
        """
    def remove(self, key: str, force: bool = False) -> int:
        """Remove an object. Returns 0, -704 unknown, -706 while a lease runs unless `force`."""
    def remove_all(self, force: bool = False) -> int:
        """Remove all objects of this tenant without a running lease, or all with `force`. Returns
        how many.
        """
    def remove_by_regex(self, regex_pattern: str, force: bool = False) -> int:
        """Remove the objects whose key contains a match. Returns how many, or -600 for a bad
        pattern.

        A match takes time linear in the key, so patterns have no backreferences and no look-around.
        """
    def save_to_disks(self, seconds: float) -> dict[str, int] | None:
        """Write what this client's memory alone has to its disks, most worth first, for `seconds` at
        most (3600): what a program does before it closes its store.

        Returns a dict of "objects", "bytes", "failed", "left" and "is_all"; None without a disk that
        is open.
        """
    def save_tensor_to_safetensor(self, key: str, file_name: str | None = None) -> int:
        """Write a stored tensor to a safetensors file, named as the key by default."""
    def setup_dummy(self, mem_pool_size: int, local_buffer_size: int, server_address: str) -> int:
        """Join as a client that lends nothing, with memory from `alloc_from_mem_pool`.

        mem_pool_size, local_buffer_size: bytes. server_address: "host:port" of the mooncake_client
        on this host. The client talks to the master itself: to MOONCAKE_MASTER if that is set, else
        to the master of that mooncake_client. It has the tenant of that mooncake_client.
        Returns 0, or -900 when no mooncake_client of this user answers, or a code of `setup`.
        """
    def unmount_and_free_segment(
        self,
        segment_ids: Sequence[str],
        grace_period_seconds: int = 0,
    ) -> int:
        """Withdraw memory of `allocate_and_mount_segment` and free it. Returns as
        `unmount_segment`.
        """
    def unmount_local_disk_segment(self, grace_period_seconds: int = 0) -> int:
        """Withdraw this client's disks; what lies only there is gone after the grace. Returns 0, also
        without disks, or a negative code.
        """
    def unmount_segment(self, segment_ids: Sequence[str], grace_period_seconds: int = 0) -> int:
        """Withdraw lent memory. Segments stay readable for the grace period, up to 3600 s.

        Returns 0, or the first failure (-101 for an unknown segment).
        """
    def unregister_buffer(self, buffer_ptr: int) -> int:
        """Undo `register_buffer` of the range that starts at `buffer_ptr`."""
    def upsert(self, key: str, value: Buffer, config: ReplicateConfig | None = None) -> int:
        """As `put`, but replaces an object of the same key; readers see the old or the new bytes.

        0: this value can be read, or that of an upsert of the key that began later. It never goes back to an older one.
        """
    def upsert_batch(
        self,
        keys: Sequence[str],
        values: Sequence[Buffer],
        config: ReplicateConfig | None = None,
    ) -> int:
        """As `put_batch`, but replaces."""
    def upsert_from(
        self,
        key: str,
        buffer_ptr: int,
        size: int,
        config: ReplicateConfig | None = None,
    ) -> int:
        """As `put_from`, but replaces."""
    def upsert_parts(self, key: str, *args: Buffer, config: ReplicateConfig | None = None) -> int:
        """As `put_parts`, but replaces."""
    def upsert_pub_tensor(
        self,
        key: str,
        tensor: Any,
        config: ReplicateConfig | None = None,
    ) -> int:
        """Store a tensor as `config` says, replacing an older one."""
    def upsert_tensor(self, key: str, tensor: Any) -> int:
        """Store a tensor, replacing an older one."""
    def upsert_tensor_from(self, key: str, buffer_ptr: int, size: int) -> int:
        """Store `size` bytes of header and data, replacing an older tensor."""
    def batch_get_tensor_with_parallelism(self, keys: list[str], targets: Any=None) -> list:
        """Return a tensor or None per key; one target per key, or none."""
    def batch_get_tensor_with_parallelism_into(
        self,
        keys: list[str],
        buffer_ptrs: list[int],
        sizes: list[int],
        targets: Any = None,
    ) -> list:
        """Read several tensors into memory; a tensor over it or None per key."""
    def batch_put_tensor_with_parallelism(
        self,
        keys: list[str],
        tensors_list: list,
        parallelisms: Any = None,
        config: Any = None,
        writer_partitions: Any = None,
    ) -> list[int]:
        """Store what one rank writes of several tensors; a code per key."""
    def batch_put_tensor_with_parallelism_from(
        self,
        keys: list[str],
        buffer_ptrs: list[int],
        sizes: list[int],
        parallelisms: Any = None,
        config: Any = None,
        writer_partitions: Any = None,
    ) -> list[int]:
        """Store what one rank writes of several tensors in memory; a code per key."""
    def batch_upsert_tensor_with_parallelism(
        self,
        keys: list[str],
        tensors_list: list,
        parallelisms: Any = None,
        config: Any = None,
        writer_partitions: Any = None,
    ) -> list[int]:
        """Store what one rank writes of several tensors, replacing older ones; a code per key."""
    def batch_upsert_tensor_with_parallelism_from(
        self,
        keys: list[str],
        buffer_ptrs: list[int],
        sizes: list[int],
        parallelisms: Any = None,
        config: Any = None,
        writer_partitions: Any = None,
    ) -> list[int]:
        """Store what one rank writes of several tensors in memory, replacing older ones; codes."""
    def get_tensor_with_parallelism(self, key: str, target: Any=None) -> Any:
        """Return what `target` asks for; without one the object as it was stored."""
    def get_tensor_with_parallelism_into(
        self,
        key: str,
        buffer_ptr: int,
        size: int,
        target: Any = None,
    ) -> Any:
        """Read header and data of what `target` asks for into memory; a tensor over it, or None."""
    def put_tensor_with_parallelism(
        self,
        key: str,
        tensor: Any,
        parallelism: Any = None,
        config: Any = None,
        writer_partition: Any = None,
    ) -> int:
        """Store what one rank writes: its part with a tp axis alone, else the whole tensor."""
    def put_tensor_with_parallelism_from(
        self,
        key: str,
        buffer_ptr: int,
        size: int,
        parallelism: Any = None,
        config: Any = None,
        writer_partition: Any = None,
    ) -> int:
        """Store what one rank writes of a tensor whose header and data lie in memory."""
    def upsert_tensor_with_parallelism(
        self,
        key: str,
        tensor: Any,
        parallelism: Any = None,
        config: Any = None,
        writer_partition: Any = None,
    ) -> int:
        """Store what one rank writes of a tensor, replacing an older one."""
    def upsert_tensor_with_parallelism_from(
        self,
        key: str,
        buffer_ptr: int,
        size: int,
        parallelism: Any = None,
        config: Any = None,
        writer_partition: Any = None,
    ) -> int:
        """Store what one rank writes of a tensor in memory, replacing an older one."""

class ParallelAxis:
    """One way in which a model is split: `kind` is "dp", "tp", "ep" or "pp".

    A tp axis has `split_dim`, an ep axis `expert_id`, a pp axis may have `stage_id`.
    """

    kind: str
    rank: int
    size: int
    split_dim: int | None
    expert_id: int | None
    stage_id: int | None
    def __init__(
        self,
        kind: str = "tp",
        rank: int = 0,
        size: int = 1,
        split_dim: int | None = None,
        expert_id: int | None = None,
        stage_id: int | None = None,
    ) -> None: ...

class TensorParallelism:
    """The axes along which a tensor is split; their order does not matter."""

    axes: list[ParallelAxis]
    def __init__(self, axes: Sequence[ParallelAxis] = ()) -> None: ...

class ReadTarget:
    """What a reader wants: "as_stored", "shard" (of `parallelism`) or "full"."""

    mode: str
    parallelism: TensorParallelism | None
    def __init__(
        self, mode: str = "as_stored", parallelism: TensorParallelism | None = None
    ) -> None: ...

class QueryTaskResponse:
    """What `query_task` says of a task. `message` is empty before its end."""

    @property
    def id(self) -> tuple[int, int]: ...
    @property
    def type(self) -> TaskType: ...
    @property
    def status(self) -> TaskStatus: ...
    @property
    def created_at_ms_epoch(self) -> int: ...
    @property
    def last_updated_at_ms_epoch(self) -> int: ...
    @property
    def assigned_client(self) -> tuple[int, int]: ...
    @property
    def message(self) -> str: ...

class EngramStoreConfig:
    """The tables of a layer.

    Attributes: table_vocab_sizes (rows of each head's table), embedding_dim (numbers of a row).
    """

    table_vocab_sizes: list[int]
    embedding_dim: int

    def __init__(self) -> None: ...

class EngramStore:
    """The tables of layer `layer_id`, under the keys `engram:l<layer>:h<head>`.

    Needs numpy. Without a store only the calls that describe the tables work. Wrong sizes are
    ValueError, a failed store call is RuntimeError.
    """

    def __init__(self, layer_id: int, config: EngramStoreConfig, store: Any = None) -> None: ...
    def get_table_vocab_sizes(self) -> list[int]:
        """Return the rows of each head's table."""
    def get_store_keys(self) -> list[str]:
        """Return the key of each head's table."""
    def get_num_heads(self) -> int:
        """Return the number of tables."""
    def get_embedding_dim(self) -> int:
        """Return the numbers of a row."""
    def populate(self, embedding_buffers: Sequence[Any]) -> None:
        """Store the tables, an array of shape [rows, embedding_dim] per head, as float32.

        The layer must not be stored yet: RuntimeError names a table that is there.
        """
    def lookup(self, row_ids: Any) -> Any:
        """Return rows, [batch, tokens, heads, embedding_dim] for ids [batch, tokens, heads].

        Only these rows are read, each once however often it is asked for.
        """
    def remove_from_store(self, force: bool = False) -> int:
        """Remove the tables and return how many there were; RuntimeError if one stays."""

class MooncakeDistributedNoFRegister:
    """Registration of NVMe-over-fabrics targets. Not built: both calls log and return -1012."""

    def real_register(self, *args: Any, **kwargs: Any) -> int:
        """Register a target. Always -1012."""
    def real_unregister_by_endpoint(self, *args: Any, **kwargs: Any) -> int:
        """Take a target back. Always -1012."""


def bind_to_numa_node(node: int) -> None:
    """Run the calling thread on a NUMA node's processors, with memory from there if there is room.

    Threads that are started later inherit it. A node that does not exist is a warning, not an
    error.
    """

def get_alloc_func_addr() -> int:
    """Address of `void *alloc(ssize_t size, int device, void *stream)`, for pluggable allocators.
    """

def get_free_func_addr() -> int:
    """Address of `void free(void *ptr, ssize_t size, int device, void *stream)`, likewise."""

UNKNOWN: ObjectDataType
KVCACHE: ObjectDataType
TENSOR: ObjectDataType
WEIGHT: ObjectDataType
SAMPLE: ObjectDataType
ACTIVATION: ObjectDataType
GRADIENT: ObjectDataType
OPTIMIZER_STATE: ObjectDataType
METADATA: ObjectDataType
GENERAL: ObjectDataType
UNDEFINED: ReplicaStatus
INITIALIZED: ReplicaStatus
PROCESSING: TaskStatus
COMPLETE: ReplicaStatus
REMOVED: ReplicaStatus
FAILED: TaskStatus
REPLICA_COPY: TaskType
REPLICA_MOVE: TaskType
PENDING: TaskStatus
SUCCESS: TaskStatus
