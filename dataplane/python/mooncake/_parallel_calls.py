"""Tensors that writers and readers split differently, on top of the plain tensor calls."""

from __future__ import annotations

import ctypes
import json
import logging
from typing import Any

from ._parallelism import MAX_SHARDS, Place, ReadTarget, Split, manifest_key, place_of
from ._structured.groups import config_of_positions
from ._tensor import HEADER_BYTES, INVALID_PARAMS, TensorCalls, pack, _torch, shard_key

logger = logging.getLogger("mooncake.store")


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


class ParallelTensorCalls(TensorCalls):
    """The `_with_parallelism` methods of `MooncakeDistributedStore`.

    put-like calls store what one rank writes and return 0 or a negative code. A rank of a tp axis
    alone gives its part; with more axes, or with a writer partition (rank, size, split_dim), it
    gives the whole tensor and its part is cut out. get-like calls return what a `ReadTarget` asks
    for, put together from parts of any split, or None.
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
        of_batch = config_of_positions(config, positions)
        codes = self._put_tensors(keys, tensors, of_batch, replace) if keys else []
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

    def _whole(self, base: str, stored: tuple[int, int] | None) -> Any:
        if stored is None:
            return self.get_tensor(base)
        size, split_dim = stored
        parts = self.batch_get_tensor([shard_key(base, rank) for rank in range(size)])
        return None if any(part is None for part in parts) else _torch().cat(parts, split_dim)

    def get_tensor_with_parallelism(self, key: str, target: Any = None) -> Any:
        """Return what `target` asks for; without one the object as it was stored."""
        try:
            found = self._found(key, ReadTarget() if target is None else target)
            return self.get_tensor(found) if isinstance(found, str) else self._assembled(*found)
        except (AttributeError, ValueError) as error:
            logger.error("Tensor of key %r: %s", key, error)
            return None

    def _found(self, key: str, target: Any) -> str | tuple[str, Any, Split | None]:
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
        return place.base, stored, split

    def _assembled(self, base: str, stored: tuple[int, int] | None, split: Split | None) -> Any:
        tensor = self._whole(base, stored)
        return tensor if split is None or tensor is None else split.part_of(tensor)

    def batch_get_tensor_with_parallelism(self, keys: list[str], targets: Any = None) -> list:
        """Return a tensor or None per key; one target per key, or none."""
        targets = [None] * len(keys) if targets is None else targets
        if len(targets) != len(keys):
            return [None] * len(keys)
        pairs = zip(keys, targets)
        return [self.get_tensor_with_parallelism(key, target) for key, target in pairs]

    def get_tensor_with_parallelism_into(
        self, key: str, buffer_ptr: int, size: int, target: Any = None
    ) -> Any:
        """Read header and data of what `target` asks for into memory; a tensor over it, or None.

        What one object holds is read there at once; parts are put together elsewhere first.
        """
        try:
            found = self._found(key, ReadTarget() if target is None else target)
            if isinstance(found, str):
                return self.get_tensor_into(found, buffer_ptr, size)
            tensor = self._assembled(*found)
        except (AttributeError, ValueError) as error:
            logger.error("Tensor of key %r: %s", key, error)
            return None
        if tensor is None or buffer_ptr <= 0:
            return None
        host, header = pack(tensor)
        data_bytes = host.numel() * host.element_size()
        if HEADER_BYTES + data_bytes > size:
            return None
        data = ctypes.string_at(host.data_ptr(), data_bytes) if data_bytes else b""
        if self._save(buffer_ptr, header) or (data and self._save(buffer_ptr + HEADER_BYTES, data)):
            return None
        return self._view_of(buffer_ptr, size)

    def batch_get_tensor_with_parallelism_into(
        self, keys: list[str], buffer_ptrs: list[int], sizes: list[int], targets: Any = None
    ) -> list:
        """Read several tensors into memory; a tensor over it or None per key."""
        targets = [None] * len(keys) if targets is None else targets
        if not len(keys) == len(buffer_ptrs) == len(sizes) == len(targets):
            return [None] * len(keys)
        rows = zip(keys, buffer_ptrs, sizes, targets)
        return [self.get_tensor_with_parallelism_into(*row) for row in rows]

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
