"""Tensors that writers and readers split differently, on top of the plain tensor calls."""

from __future__ import annotations

import ctypes
import json
import logging
from typing import Any

from ._parallelism import MAX_SHARDS, Place, ReadTarget, Split, manifest_key, place_of
from ._read_plan import Parts, ReadPlan
from ._structured.groups import config_of_positions
from ._tensor import (
    HEADER_BYTES,
    INVALID_PARAMS,
    MAX_ADDRESS,
    TensorCalls,
    _torch,
    shard_key,
    unpack,
)
from ._tensor_header import Shard, TensorHeader, read_header

logger = logging.getLogger("mooncake.store")

#: Reads of a tensor that is replaced while it is read.
TRIES = 3


def _written(key: str, tensor: Any, parallelism: Any, partition: Any) -> tuple[Place, Any]:
    """Return where a write goes and the tensor to store there; raises ValueError."""
    if partition is not None:
        if parallelism is not None:
            raise ValueError("give either parallelism or writer_partition, not both")
        split = Split(partition.rank, partition.size, partition.split_dim)
        return Place(key, split), split.part_of(tensor)
    place = place_of(key, parallelism)
    if place.split is None:
        return place, tensor
    if place.takes_whole:
        return place, place.split.part_of(tensor)
    if not -tensor.dim() <= place.split.dim < tensor.dim():
        raise ValueError(f"the tensor has no dimension {place.split.dim}")
    return place, tensor


def _shard_of(place: Place, part: Any) -> Shard | None:
    """Return what the header says of a part: all parts of a split have one size."""
    if place.split is None or not getattr(part, "shape", ()):
        return None
    whole, dim = list(part.shape), place.split.dim % len(part.shape)
    whole[dim] *= place.split.size
    return Shard(tuple(whole), place.split.rank, place.split.size, dim)


def _headers(raw: bytes, count: int) -> list[TensorHeader]:
    """Return the headers in `raw`; ValueError if one is none."""
    found = []
    for at in range(count):
        # What lies behind it is checked when it is read.
        header = read_header(raw[at * HEADER_BYTES : (at + 1) * HEADER_BYTES], MAX_ADDRESS)
        if header is None:
            raise ValueError("a part of it is no tensor")
        found.append(header)
    return found


class ParallelTensorCalls(TensorCalls):
    """The `_with_parallelism` methods of `MooncakeDistributedStore`.

    put-like calls store what one rank writes and return 0 or a negative code. A rank of a tp axis
    alone gives its part; with more axes, or with a writer partition (rank, size, split_dim), it
    gives the whole tensor and its part is cut out. get-like calls return what a `ReadTarget` asks
    for, or None; of parts of another split only the bytes are read that are wanted, each to its
    place.
    """

    def _write(
        self,
        keys: list[str],
        tensors: list,
        parallelisms: Any,
        config: Any,
        partitions: Any,
        replace: bool,
    ) -> list[int]:
        columns = [tensors, parallelisms or [None] * len(keys), partitions or [None] * len(keys)]
        if any(len(column) != len(keys) for column in columns):
            return [INVALID_PARAMS] * len(keys)
        codes, rows = [INVALID_PARAMS] * len(keys), []
        for index, (key, tensor, parallelism, partition) in enumerate(zip(keys, *columns)):
            try:
                rows.append((index, *_written(key, tensor, parallelism, partition)))
            except (AttributeError, IndexError, RuntimeError, TypeError, ValueError) as error:
                logger.error("Tensor of key %r: %s", key, error)
        groups = getattr(config, "group_ids", None)
        if groups and len(groups) != len(keys):
            logger.error("%d group_ids for %d keys; name one for each", len(groups), len(keys))
            return [INVALID_PARAMS] * len(keys)
        for row, code in zip(rows, self._write_rows(rows, config, replace)):
            codes[row[0]] = code
        return codes

    def _write_rows(
        self, rows: list[tuple[int, Place, Any]], config: Any, replace: bool
    ) -> list[int]:
        keys = [place.key for _, place, _ in rows]
        tensors, positions = [tensor for _, _, tensor in rows], [index for index, _, _ in rows]
        shards = [_shard_of(place, tensor) for _, place, tensor in rows]
        of_batch = config_of_positions(config, positions)
        codes = self._put_tensors(keys, tensors, of_batch, replace, shards) if keys else []
        put = self.upsert if replace else self.put
        # The manifest comes after the part that it speaks of, and belongs to its group.
        for at, (index, place, _) in enumerate(rows):
            if codes[at] == 0 and place.split is not None:
                split = {"version": 1, "size": place.split.size, "split_dim": place.split.dim}
                options = () if config is None else (config_of_positions(config, [index]),)
                codes[at] = put(manifest_key(place.base), json.dumps(split).encode(), *options)
        return codes

    def _stored_split(self, base: str) -> tuple[int, int] | None:
        """Return size and dimension of the split under which a tensor was stored."""
        try:
            manifest = json.loads(self.get(manifest_key(base)) or b"null")
            size, split_dim = int(manifest["size"]), int(manifest["split_dim"])
        except (KeyError, TypeError, ValueError):
            return None
        return (size, split_dim) if 0 < size <= MAX_SHARDS else None

    def get_tensor_with_parallelism(self, key: str, target: Any = None) -> Any:
        """Return what `target` asks for; without one the object as it was stored."""
        return self.batch_get_tensor_with_parallelism([key], [target])[0]

    def batch_get_tensor_with_parallelism(self, keys: list[str], targets: Any = None) -> list:
        """Return a tensor or None per key; one target per key, or none."""
        targets = [None] * len(keys) if targets is None else targets
        if len(targets) != len(keys):
            return [None] * len(keys)
        found = self._all_found(keys, targets)
        whole = [index for index, it in enumerate(found) if isinstance(it, str)]
        tensors: list[Any] = [None] * len(keys)
        if whole:
            read = self.batch_get_tensor([found[index] for index in whole])
            for index, tensor in zip(whole, read):
                tensors[index] = tensor
        for index, it in enumerate(found):
            if isinstance(it, Parts):
                tensors[index] = self._put_together(keys[index], it, None)
        return tensors

    def _all_found(self, keys: list[str], targets: Any) -> list[str | Parts | None]:
        found: list[str | Parts | None] = []
        for key, target in zip(keys, targets):
            try:
                found.append(self._found(key, ReadTarget() if target is None else target))
            except (AttributeError, ValueError) as error:
                logger.error("Tensor of key %r: %s", key, error)
                found.append(None)
        return found

    def _found(self, key: str, target: Any) -> str | Parts:
        """Return the object that is what a target asks for, or what it is put together from."""
        if target.mode == "shard" and target.parallelism is None:
            raise ValueError("a target of mode shard needs parallelism")
        place = place_of(key, target.parallelism)
        if target.mode == "as_stored":
            return place.key
        stored = self._stored_split(place.base)
        split = None if target.mode == "full" else place.split
        if stored is None and split is None:
            return place.base
        if split is not None and stored == (split.size, split.dim):
            return place.key
        if stored is None:
            return Parts([place.base], 0, split)
        size, dim = stored
        return Parts([shard_key(place.base, rank) for rank in range(size)], dim, split)

    def _put_together(self, key: str, parts: Parts, room: tuple[int, int] | None) -> Any:
        """Return the tensor of some parts, in memory of its own or at address and size of `room`.

        Each byte is read to its place, unless there are many small pieces. None if a part is missing,
        the room is too small, or the parts are replaced again and again while they are read.
        """
        for _ in range(TRIES):
            raw = self._read_with_headers(parts.keys, None, 0)
            try:
                plan = None if raw is None else ReadPlan.of(parts, _headers(raw, len(parts.keys)))
            except ValueError as error:
                logger.error("Tensor of key %r: %s", key, error)
                return None
            if plan is None:
                return None
            if plan.is_scattered:
                return self._joined(parts, plan, room)
            memory = (ctypes.c_ubyte * plan.size)() if room is None else None
            address, size = room or (ctypes.addressof(memory), plan.size)
            if address <= 0 or plan.size > size or self._save(address, plan.header):
                return None
            again = self._read_with_headers(parts.keys, plan, address)
            # With other headers the ranges would be of something else.
            if again == raw:
                return self._view_of(address, size) if memory is None else unpack(memory)
            if again is None:
                return None
        logger.error("Tensor of key %r is replaced while it is read", key)
        return None

    def _read_with_headers(self, keys: list[str], plan: ReadPlan | None, address: int) -> bytes | None:
        """Read the headers of tensors, and in the same call what a plan says to an address.

        All that one call reads of an object is of one version. None if something cannot be read.
        """
        memory = ctypes.create_string_buffer(HEADER_BYTES * len(keys))
        places = [[at * HEADER_BYTES] for at in range(len(keys))]
        sizes = [[HEADER_BYTES]] * len(keys)
        buffers, all_keys = [ctypes.addressof(memory)], [keys]
        targets, sources, lengths = [places], [[[0]] * len(keys)], [sizes]
        if plan is not None and plan.keys:
            buffers.append(address)
            all_keys.append(plan.keys)
            targets.append(plan.targets)
            sources.append(plan.sources)
            lengths.append(plan.sizes)
        read = self.get_into_ranges(buffers, all_keys, targets, sources, lengths)
        return memory.raw if read == lengths else None

    def _joined(self, parts: Parts, plan: ReadPlan, room: tuple[int, int] | None) -> Any:
        """As `_put_together`, of whole parts that are joined in memory."""
        tensors = self.batch_get_tensor(parts.keys)
        if any(tensor is None for tensor in tensors):
            return None
        tensor = tensors[0] if len(tensors) == 1 else _torch().cat(tensors, parts.dim)
        tensor = tensor if parts.split is None else parts.split.part_of(tensor)
        if room is None:
            return tensor
        address, size = room
        if address <= 0 or plan.size > size or self._save(address, plan.header):
            return None
        host = tensor.contiguous()
        data = ctypes.string_at(host.data_ptr(), plan.size - HEADER_BYTES)
        return None if self._save(address + HEADER_BYTES, data) else self._view_of(address, size)

    def get_tensor_with_parallelism_into(
        self, key: str, buffer_ptr: int, size: int, target: Any = None
    ) -> Any:
        """Read header and data of what `target` asks for into memory; a tensor over it, or None."""
        row = ([key], [buffer_ptr], [size], [target])
        return self.batch_get_tensor_with_parallelism_into(*row)[0]

    def batch_get_tensor_with_parallelism_into(
        self, keys: list[str], buffer_ptrs: list[int], sizes: list[int], targets: Any = None
    ) -> list:
        """Read several tensors into memory; a tensor over it or None per key."""
        targets = [None] * len(keys) if targets is None else targets
        if not len(keys) == len(buffer_ptrs) == len(sizes) == len(targets):
            return [None] * len(keys)
        found = self._all_found(keys, targets)
        whole = [index for index, it in enumerate(found) if isinstance(it, str)]
        tensors: list[Any] = [None] * len(keys)
        if whole:
            columns = ([column[index] for index in whole] for column in (found, buffer_ptrs, sizes))
            for index, tensor in zip(whole, self.batch_get_tensor_into(*columns)):
                tensors[index] = tensor
        for index, it in enumerate(found):
            if isinstance(it, Parts):
                room = buffer_ptrs[index], sizes[index]
                tensors[index] = self._put_together(keys[index], it, room)
        return tensors

    def put_tensor_with_parallelism(
        self,
        key: str,
        tensor: Any,
        parallelism: Any = None,
        config: Any = None,
        writer_partition: Any = None,
    ) -> int:
        """Store what one rank writes of a tensor."""
        split, part = [parallelism], [writer_partition]
        return self._write([key], [tensor], split, config, part, False)[0]

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
        tensors = [self._host_view_of(buffer_ptr, size)]
        split, part = [parallelism], [writer_partition]
        return self._write([key], tensors, split, config, part, False)[0]

    def batch_put_tensor_with_parallelism(
        self,
        keys: list[str],
        tensors_list: list,
        parallelisms: Any = None,
        config: Any = None,
        writer_partitions: Any = None,
    ) -> list[int]:
        """Store what one rank writes of several tensors; a code per key."""
        return self._write(keys, tensors_list, parallelisms, config, writer_partitions, False)

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
        tensors = [self._host_view_of(*it) for it in zip(buffer_ptrs, sizes)]
        if len(buffer_ptrs) != len(sizes):
            return [INVALID_PARAMS] * len(keys)
        return self._write(keys, tensors, parallelisms, config, writer_partitions, False)

    def upsert_tensor_with_parallelism(
        self,
        key: str,
        tensor: Any,
        parallelism: Any = None,
        config: Any = None,
        writer_partition: Any = None,
    ) -> int:
        """Store what one rank writes of a tensor, replacing an older one."""
        split, part = [parallelism], [writer_partition]
        return self._write([key], [tensor], split, config, part, True)[0]

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
        tensors = [self._host_view_of(buffer_ptr, size)]
        split, part = [parallelism], [writer_partition]
        return self._write([key], tensors, split, config, part, True)[0]

    def batch_upsert_tensor_with_parallelism(
        self,
        keys: list[str],
        tensors_list: list,
        parallelisms: Any = None,
        config: Any = None,
        writer_partitions: Any = None,
    ) -> list[int]:
        """Store what one rank writes of several tensors, replacing older ones; a code per key."""
        return self._write(keys, tensors_list, parallelisms, config, writer_partitions, True)

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
        tensors = [self._host_view_of(*it) for it in zip(buffer_ptrs, sizes)]
        if len(buffer_ptrs) != len(sizes):
            return [INVALID_PARAMS] * len(keys)
        return self._write(keys, tensors, parallelisms, config, writer_partitions, True)
