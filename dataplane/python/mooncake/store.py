"""The store client. `MooncakeDistributedStore` is the class that inference engines call.

Status methods return 0 or a negative code (see `ErrorCode` of Mooncake's documentation; -704 is a
miss, -200 no space, -600 a wrong argument or a store that is not set up, -900 no master) and do not
raise for store errors. Addresses are integers such as `tensor.data_ptr()`.
"""

from __future__ import annotations

from . import _perigee
from ._perigee import (
    BufferHandle,
    Descriptor,
    DiskDescriptor,
    MemoryDescriptor,
    MooncakeHostMemAllocator,
    ObjectDataType,
    QueryTaskResponse,
    ReplicaDescriptor,
    ReplicaStatus,
    ReplicateConfig,
    SoftPinAction,
    TaskStatus,
    TaskType,
    bind_to_numa_node,
    get_alloc_func_addr,
    get_free_func_addr,
)
from ._engram import EngramStore, EngramStoreConfig
from ._not_built import MooncakeDistributedNoFRegister
from ._parallel_calls import ParallelTensorCalls
from ._parallelism import ParallelAxis, ReadTarget, TensorParallelism
from ._tensor import (
    deserialize_tensor as _deserialize_tensor,
    serialize_tensor as _serialize_tensor,
    tensor_metadata_size as _tensor_metadata_size,
)
from .buffer_pool import (
    BufferLease,
    BufferLeaseView,
    BufferPool,
    RegisteredBufferLease,
    RegisteredBufferLeaseView,
    RegisteredBufferPool,
)

BufferDescriptor = Descriptor


class MooncakeDistributedStore(ParallelTensorCalls, _perigee.MooncakeDistributedStore):
    """A client of the cluster; see the methods. One process may have several.

    After `os.fork()` the child's copy is not set up: its calls answer -600 until it calls `setup`.
    """

    __doc__ = (__doc__ or "") + "\n" + (_perigee.MooncakeDistributedStore.__doc__ or "")

    def _get_pyclient_capsule(self) -> MooncakeDistributedStore | None:
        """Return what pools take for a client, None before `setup`: the store itself.

        It is no capsule: a C++ extension of Mooncake finds no object of its own in it.
        """
        return self if self.get_hostname() else None


def _get_pyclient_from_wrapper(wrapper: MooncakeDistributedStore) -> MooncakeDistributedStore | None:
    """Return what a store's `_get_pyclient_capsule` returns."""
    return wrapper._get_pyclient_capsule()


# Enum members are also module attributes; where two enums share a name the later one wins.
for _enum in (ObjectDataType, ReplicaStatus, TaskType, TaskStatus):
    globals().update(_enum.__members__)
del _enum

__all__ = [
    "BufferDescriptor",
    "BufferHandle",
    "BufferLease",
    "BufferLeaseView",
    "BufferPool",
    "Descriptor",
    "DiskDescriptor",
    "EngramStore",
    "EngramStoreConfig",
    "MemoryDescriptor",
    "MooncakeDistributedNoFRegister",
    "MooncakeDistributedStore",
    "MooncakeHostMemAllocator",
    "ObjectDataType",
    "ParallelAxis",
    "QueryTaskResponse",
    "ReadTarget",
    "RegisteredBufferLease",
    "RegisteredBufferLeaseView",
    "RegisteredBufferPool",
    "ReplicaDescriptor",
    "ReplicaStatus",
    "ReplicateConfig",
    "SoftPinAction",
    "TaskStatus",
    "TaskType",
    "TensorParallelism",
    "bind_to_numa_node",
    "get_alloc_func_addr",
    "get_free_func_addr",
]
