"""`SharedSegment`: host memory of one process mapped into several, for one writer and many readers.

The owner makes an anonymous memory file; the others open it through the owner's /proc entry, so
nothing is left behind when any of them dies. All must run as one user in one process namespace.
"""

from __future__ import annotations

import ctypes
import hashlib
import logging
import mmap as memory_map
import os
import struct

from ._perigee import say_without_effect

logger = logging.getLogger("mooncake.engine")

MAX_BYTES = 1 << 46
MAGIC = b"PGSS"
# magic, rank, owner, world size, bytes, fingerprint of the name, process, descriptor, device, inode
BLOB = struct.Struct("<4sIIIQ16sIiQQ")
NO_DESCRIPTOR = -1


def _round_up(size: int) -> int:
    page = memory_map.PAGESIZE
    return (size + page - 1) // page * page


class SharedSegment:
    """Memory shared between the ranks of a group; made with `create`, usable after `complete`."""

    def __init__(self) -> None:
        raise TypeError("SharedSegment.create() makes shared segments")

    @staticmethod
    def supported(mmap: bool = True, host_register: bool = False) -> bool:
        """Return whether this build can share such memory: plain host memory only."""
        return bool(mmap) and not host_register

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
    ) -> tuple[SharedSegment, bytes]:
        """Return this rank's segment and a blob for the others; `complete` takes all blobs.

        size: bytes, rounded up to whole pages. Raises RuntimeError where that is not possible.
        """
        if not cls.supported(mmap, host_register):
            raise RuntimeError(
                "This build shares plain host memory only: leave mmap=True and host_register=False"
            )
        if device_id != 0:
            say_without_effect(logger.name, "SharedSegment.create", "device_id")
        if not 0 < size <= MAX_BYTES:
            raise RuntimeError(f"The size of a shared segment must be in 1..{MAX_BYTES}")
        if not (0 <= rank_id < world_size and 0 <= owner_rank < world_size):
            raise RuntimeError("rank_id and owner_rank must be below world_size")
        segment = object.__new__(cls)
        segment._size = _round_up(size)
        segment._group = (world_size, owner_rank)
        segment._rank = rank_id
        segment._name = hashlib.blake2b(name.encode(), digest_size=16).digest()
        segment._descriptor = NO_DESCRIPTOR
        segment._map = None
        segment._ready = False
        if rank_id == owner_rank:
            segment._allocate()
        return segment, segment._blob()

    def complete(self, blobs: list[bytes]) -> None:
        """Map the owner's memory; blobs are those of all ranks, in their order."""
        world_size, owner = self._group
        if len(blobs) != world_size:
            raise RuntimeError(f"{world_size} blobs are needed, {len(blobs)} were given")
        for rank, blob in enumerate(blobs):
            self._check(rank, blob)
        if self._rank != owner:
            self._attach(blobs[owner])
        self._ready = True

    def ready(self) -> bool:
        """Return whether `complete` was called."""
        return self._ready

    def base_addr(self) -> int:
        """Return the address of the first byte in this process; 0 before it is mapped."""
        return 0 if self._map is None else ctypes.addressof(ctypes.c_char.from_buffer(self._map))

    def device_addr(self) -> int:
        """Return 0: no accelerator sees this memory."""
        return 0

    def size(self) -> int:
        """Return the bytes of the segment, whole pages."""
        return self._size

    def _allocate(self) -> None:
        try:
            self._descriptor = os.memfd_create("perigee-shared", os.MFD_CLOEXEC)
            os.posix_fallocate(self._descriptor, 0, self._size)
            self._map = memory_map.mmap(self._descriptor, self._size)
        except OSError as error:
            raise RuntimeError(f"{self._size} bytes could not be shared: {error}") from None

    def _blob(self) -> bytes:
        world_size, owner = self._group
        device, inode = 0, 0
        if self._descriptor != NO_DESCRIPTOR:
            status = os.fstat(self._descriptor)
            device, inode = status.st_dev, status.st_ino
        identity = (self._size, self._name, os.getpid(), self._descriptor, device, inode)
        return BLOB.pack(MAGIC, self._rank, owner, world_size, *identity)

    def _check(self, rank: int, blob: bytes) -> None:
        blob = blob.encode("latin-1") if isinstance(blob, str) else bytes(blob)
        if len(blob) != BLOB.size:
            raise RuntimeError(f"The blob of rank {rank} has {len(blob)} bytes, not {BLOB.size}")
        magic, its_rank, owner, world_size, size, name, *_ = BLOB.unpack(blob)
        mine = (MAGIC, rank, self._group[1], self._group[0], self._size, self._name)
        if (magic, its_rank, owner, world_size, size, name) != mine:
            raise RuntimeError(f"Rank {rank} declared another shared segment than this one")

    def _attach(self, blob: bytes) -> None:
        *_, process, descriptor, device, inode = BLOB.unpack(blob)
        try:
            self._descriptor = os.open(f"/proc/{process}/fd/{descriptor}", os.O_RDWR | os.O_CLOEXEC)
            status = os.fstat(self._descriptor)
            if (status.st_dev, status.st_ino) != (device, inode):
                raise RuntimeError("The owner of the shared segment is gone")
            self._map = memory_map.mmap(self._descriptor, self._size)
        except OSError as error:
            raise RuntimeError(f"The owner's memory could not be mapped: {error}") from None

    def __del__(self) -> None:
        descriptor = getattr(self, "_descriptor", NO_DESCRIPTOR)
        if descriptor != NO_DESCRIPTOR:
            os.close(descriptor)
