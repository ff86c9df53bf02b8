"""`TransferEngine` with TENT's calls, over `mooncake.engine`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from mooncake.engine import TransferEngine as _Engine
from mooncake.engine import TransferNotify, TransferOpcode

from .batches import Batches, overall
from .errors import AddressNotRegisteredError, InternalError, InvalidArgumentError
from .errors import InvalidEntryError, NotImplementedError, fail
from .guards import BatchGuard, MemoryGuard
from .settings import Settings
from .types import (
    ANYWHERE,
    LOCAL_SEGMENT_ID,
    MemoryOptions,
    Notification,
    Permission,
    Request,
    SegmentInfo,
    SegmentInfoBuffer,
    TransferStatus,
)


class TransferEngine:
    """Moves bytes between registered memory of processes.

    `config_path` is a file of TENT's settings; `MC_TENT_CONF` is not read. The engine runs from the
    start on; calls raise a `TentException` when they fail. Segments are other engines, by name.
    """

    def __init__(self, config_path: str | os.PathLike[str] | None = None) -> None:
        settings = Settings.load(config_path)
        self._engine = _Engine()
        code = self._engine.initialize(settings.name, settings.metadata, settings.protocol, "")
        if code != 0:
            fail("initialize", code)
        port = self._engine.get_rpc_port()
        peers = settings.metadata == "P2PHANDSHAKE"
        self._name = f"{_host(settings.name)}:{port}" if peers else settings.name
        self._segments = {LOCAL_SEGMENT_ID: self._name}
        self._registered: dict[int, SegmentInfoBuffer] = {}
        self._allocated: dict[int, int] = {}
        self._batches = Batches(self._engine)

    def available(self) -> bool:
        """Whether the engine runs."""
        return self._engine.get_rpc_port() > 0

    def get_segment_name(self) -> str:
        """Return the name under which others open this engine's segment."""
        return self._name

    def get_rpc_server_address(self) -> str:
        """Return the host that others connect to."""
        return _host(self._name)

    def get_rpc_server_port(self) -> int:
        """Return the port that others connect to."""
        return self._engine.get_rpc_port()

    def get_local_topology(self) -> str:
        """Return as JSON which NICs serve which memory."""
        return self._engine.get_local_topology()

    def export_local_segment(self) -> str:
        """Return what `import_remote_segment` takes: the name."""
        return self._name

    def import_remote_segment(self, shared_handle: str) -> int:
        """Open the segment of `export_local_segment`."""
        return self.open_segment(shared_handle)

    def open_segment(self, segment_name: str) -> int:
        """Return the number of a segment; RpcServiceError if its engine does not answer."""
        known = {name: number for number, name in self._segments.items()}
        if segment_name in known:
            return known[segment_name]
        code = self._engine.send_probe(segment_name)
        if code != 0:
            fail(f"open_segment({segment_name!r})", code)
        number = max(self._segments) + 1
        self._segments[number] = segment_name
        return number

    def close_segment(self, handle: int) -> None:
        """Forget a segment."""
        if handle == LOCAL_SEGMENT_ID or handle not in self._segments:
            raise InvalidEntryError(f"segment {handle} cannot be closed")
        del self._segments[handle]

    def get_segment_info(self, handle: int) -> SegmentInfo:
        """Return the ranges of this engine's own segment; those of others are not known."""
        self._target(handle)
        if handle != LOCAL_SEGMENT_ID:
            raise NotImplementedError("a peer's ranges are not known; exchange their addresses")
        return SegmentInfo(buffers=list(self._registered.values()))

    def allocate_local_memory(self, size: int, location: str = ANYWHERE) -> int:
        """Return the address of registered memory of the engine."""
        address = self._engine.allocate_managed_buffer(size)
        if not address:
            raise InternalError(f"{size} bytes could not be allocated; the log says why")
        self._allocated[address] = size
        self._registered[address] = SegmentInfoBuffer(address, size, location)
        return address

    def allocate_local_memory_ex(self, size: int, options: MemoryOptions) -> int:
        """As `allocate_local_memory`."""
        _check_permission(options.perm)
        return self.allocate_local_memory(size, options.location)

    def free_local_memory(self, addr: int) -> None:
        """Give memory of `allocate_local_memory` back."""
        size = self._allocated.pop(addr, None)
        if size is None:
            raise AddressNotRegisteredError(f"{addr:#x} was not allocated here")
        self._registered.pop(addr, None)
        code = self._engine.free_managed_buffer(addr, size)
        if code != 0:
            fail("free_local_memory", code)

    def allocate_memory_guard(self, size: int, location: str = ANYWHERE) -> MemoryGuard:
        """As `allocate_local_memory`; a `with` block gives it back."""
        return MemoryGuard(self, self.allocate_local_memory(size, location), size)

    def allocate_memory_guard_ex(self, size: int, options: MemoryOptions) -> MemoryGuard:
        """As `allocate_memory_guard`."""
        return MemoryGuard(self, self.allocate_local_memory_ex(size, options), size)

    def register_local_memory(
        self, addr: int, size: int, permission: Permission = Permission.GlobalReadWrite
    ) -> None:
        """Let peers read and write memory."""
        self.register_local_memory_batch([addr], [size], permission)

    def register_local_memory_batch(
        self,
        addr_list: Sequence[int],
        size_list: Sequence[int],
        permission: Permission = Permission.GlobalReadWrite,
    ) -> None:
        """Register all ranges, or none of them."""
        self.register_local_memory_batch_ex(addr_list, size_list, MemoryOptions(perm=permission))

    def register_local_memory_ex(self, addr: int, size: int, options: MemoryOptions) -> None:
        """As `register_local_memory`, with the memory's location."""
        self.register_local_memory_batch_ex([addr], [size], options)

    def register_local_memory_batch_ex(
        self, addr_list: Sequence[int], size_list: Sequence[int], options: MemoryOptions
    ) -> None:
        """As `register_local_memory_batch`, with the memory's location."""
        _check_permission(options.perm)
        if len(addr_list) != len(size_list):
            raise InvalidArgumentError(f"{len(addr_list)} addresses, {len(size_list)} sizes")
        code = self._engine.batch_register_memory(addr_list, size_list, options.location)
        if code != 0:
            fail("register_local_memory", code)
        for address, size in zip(addr_list, size_list):
            self._registered[address] = SegmentInfoBuffer(address, size, options.location)

    def unregister_local_memory(self, addr: int, size: int = 0) -> None:
        """Undo the registration of the range that begins here."""
        self.unregister_local_memory_batch([addr])

    def unregister_local_memory_batch(
        self, addr_list: Sequence[int], size_list: Sequence[int] = ()
    ) -> None:
        """Undo the registration of the ranges that begin here."""
        code = self._engine.batch_unregister_memory(addr_list)
        if code != 0:
            fail("unregister_local_memory", code)
        for address in addr_list:
            self._registered.pop(address, None)

    def allocate_transfer_batch(self, batch_size: int) -> int:
        """Return the number of a batch for as many requests."""
        return self._batches.allocate(batch_size)

    def free_transfer_batch(self, batch_id: int) -> None:
        """Forget a batch. What is under way goes on to its end."""
        self._batches.free(batch_id)

    def allocate_batch_guard(self, batch_size: int) -> BatchGuard:
        """As `allocate_transfer_batch`; a `with` block frees it."""
        return BatchGuard(self, self.allocate_transfer_batch(batch_size))

    def submit_transfer(
        self, batch_id: int, request_list: Sequence[Request], notifi: Notification | None = None
    ) -> None:
        """Start requests. The outcome of each is its status."""
        if notifi is not None:
            raise NotImplementedError("send_notifi after get_transfer_status says COMPLETED")
        targets = [(self._target(it.target_id), it) for it in request_list]
        self._batches.submit(batch_id, targets)

    def submit_transfer_notif(
        self, batch_id: int, request_list: Sequence[Request], name: str, message: str
    ) -> None:
        """As `submit_transfer` with a notification."""
        self.submit_transfer(batch_id, request_list, Notification(name, message))

    def cancel_transfer(self, batch_id: int, task_id: int) -> None:
        """Raise NotImplementedError: a transfer that was submitted goes on to its end."""
        self.get_transfer_status(batch_id, task_id)
        raise NotImplementedError("a transfer that was submitted goes on to its end")

    def send_notifi(self, target_id: int, notifi: Notification) -> None:
        """Send a message to the engine of a segment."""
        target, message = self._target(target_id), TransferNotify(notifi.name, notifi.msg)
        engine: Any = self._engine
        code = engine.batch_transfer_sync(target, [], [], [], TransferOpcode.Write, message)
        if code != 0:
            fail("send_notifi", code)

    def recv_notifi(self) -> list[Notification]:
        """Return the messages that arrived since the last call."""
        return [Notification(it.name, it.msg) for it in self._engine.get_notifies()]

    def get_transfer_status(self, batch_id: int, task_id: int) -> TransferStatus:
        """Return the state of a request by its place in the batch."""
        statuses = self._batches.statuses(batch_id)
        if not 0 <= task_id < len(statuses):
            raise InvalidArgumentError(f"batch {batch_id} has {len(statuses)} requests")
        return statuses[task_id]

    def get_transfer_status_list(self, batch_id: int) -> list[TransferStatus]:
        """Return the state of all requests of a batch."""
        return self._batches.statuses(batch_id)

    def get_transfer_status_overall(self, batch_id: int) -> TransferStatus:
        """Return the state of a batch: pending while one request is, then the worst of all."""
        return overall(self._batches.statuses(batch_id))

    def _target(self, handle: int) -> str:
        name = self._segments.get(handle)
        if name is None:
            raise InvalidEntryError(f"there is no segment {handle}; open_segment returns one")
        return name


def _host(name: str) -> str:
    host, colon, port = name.rpartition(":")
    return host if colon and port.isdigit() and "]" not in port else name


def _check_permission(permission: Permission) -> None:
    if permission != Permission.GlobalReadWrite:
        raise NotImplementedError("memory is registered for reading and writing by peers only")
