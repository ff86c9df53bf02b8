"""Tensors that writers and readers split differently, on top of the plain tensor calls.

A tensor put with a tensor-parallel axis is one object per shard (`<key>_tp_<rank>`) and a small
manifest (`<key>__parallelism_manifest`) that says how it was split, so that a reader may ask for
other shards, or for the whole. Axes of the other kinds do not split tensors; they are refused with
-1012, as are writer partitions.
"""

from __future__ import annotations

import ctypes
import json
import logging
from typing import Any, Sequence

from ._tensor import HEADER_BYTES, INVALID_PARAMS, TensorCalls, _pack, _torch, shard_key

logger = logging.getLogger("mooncake.store")

NOT_SUPPORTED = -1012
MAX_SHARDS = 4096
READ_MODES = ("as_stored", "shard", "full")


class ParallelAxis:
    """One way in which a model is split: `kind` is "dp", "tp", "ep" or "pp"."""

    def __init__(
        self,
        kind: str = "tp",
        rank: int = 0,
        size: int = 1,
        split_dim: int | None = None,
        expert_id: int | None = None,
        stage_id: int | None = None,
    ) -> None:
        self.kind = kind
        self.rank = rank
        self.size = size
        self.split_dim = split_dim
        self.expert_id = expert_id
        self.stage_id = stage_id


class TensorParallelism:
    """The axes along which a tensor is split."""

    def __init__(self, axes: Sequence[ParallelAxis] = ()) -> None:
        self.axes = list(axes)


class ReadTarget:
    """What a reader wants: "as_stored", "shard" (of `parallelism`) or "full"."""

    def __init__(
        self, mode: str = "as_stored", parallelism: TensorParallelism | None = None
    ) -> None:
        self.mode = mode
        self.parallelism = parallelism


class _Unsupported(ValueError):
    """A form that is well written and not built."""


def manifest_key(key: str) -> str:
    """Return the key of the object that says how a tensor was split."""
    return f"{key}__parallelism_manifest"


def _split(parallelism: Any) -> tuple[int, int, int] | None:
    """Return rank, size and dimension of the split; None for a tensor that stays whole."""
    axes = [axis for axis in getattr(parallelism, "axes", None) or [] if axis.size > 1]
    if not axes:
        return None
    kinds = [str(axis.kind).lower() for axis in axes]
    if len(axes) > 1 or kinds[0] not in ("tp", "1", "parallelaxiskind.tp"):
        raise _Unsupported(f"tensors split along {', '.join(kinds)} are not built; use one tp axis")
    axis = axes[0]
    if not 0 <= axis.rank < axis.size <= MAX_SHARDS:
        raise ValueError(f"rank {axis.rank} of {axis.size} shards does not exist")
    return axis.rank, axis.size, axis.split_dim or 0


def _refused(key: str, error: ValueError) -> int:
    logger.error("Tensor of key %r: %s", key, error)
    return NOT_SUPPORTED if isinstance(error, _Unsupported) else INVALID_PARAMS


class ParallelTensorCalls(TensorCalls):
    """The `_with_parallelism` methods of `MooncakeDistributedStore`.

    put-like calls take the whole tensor and store all its shards; they return 0 or a negative code.
    get-like calls return the tensor a `ReadTarget` asks for, or None.
    """

    def _put_parallel(
        self,
        key: str,
        tensor: Any,
        parallelism: Any,
        config: Any,
        writer_partition: Any,
        replace: bool,
    ) -> int:
        try:
            if writer_partition is not None:
                raise _Unsupported("writer partitions are not built")
            split = _split(parallelism)
            if split is None:
                return self._put_tensors([key], [tensor], config, replace)[0]
            _, size, split_dim = split
            shards = tensor.tensor_split(size, split_dim)
        except ValueError as error:
            return _refused(key, error)
        except (AttributeError, IndexError, RuntimeError) as error:
            return _refused(key, ValueError(f"it cannot be split: {error}"))
        keys = [shard_key(key, rank) for rank in range(size)]
        failed = [code for code in self._put_tensors(keys, shards, config, replace) if code]
        if failed:
            return failed[0]
        # The manifest comes last: a reader that finds it finds all shards.
        manifest = json.dumps({"version": 1, "size": size, "split_dim": split_dim}).encode()
        put = self.upsert if replace else self.put
        return put(manifest_key(key), manifest) if config is None else put(
            manifest_key(key), manifest, config
        )

    def _stored_split(self, key: str) -> tuple[int, int] | None:
        """Return size and dimension of the split under which the tensor was stored."""
        try:
            manifest = json.loads(self.get(manifest_key(key)) or b"null")
            size, split_dim = int(manifest["size"]), int(manifest["split_dim"])
        except (KeyError, TypeError, ValueError):
            return None
        return (size, split_dim) if 0 < size <= MAX_SHARDS else None

    def _whole(self, key: str, stored: tuple[int, int] | None) -> Any:
        if stored is None:
            return self.get_tensor(key)
        size, split_dim = stored
        shards = self.batch_get_tensor([shard_key(key, rank) for rank in range(size)])
        if any(shard is None for shard in shards):
            return None
        return _torch().cat(shards, split_dim)

    def get_tensor_with_parallelism(self, key: str, target: Any = None) -> Any:
        """Return the whole tensor, or the shard that `target` asks for, however it was stored."""
        try:
            mode = str(getattr(target, "mode", "as_stored")).lower()
            if mode not in READ_MODES:
                raise ValueError(f"read mode {mode!r} is none of {', '.join(READ_MODES)}")
            split = None if mode == "full" else _split(getattr(target, "parallelism", None))
        except ValueError as error:
            _refused(key, error)
            return None
        stored = self._stored_split(key)
        if split is None:
            return self._whole(key, stored)
        rank, size, split_dim = split
        if stored == (size, split_dim):
            return self.get_tensor(shard_key(key, rank))
        whole = self._whole(key, stored)
        if whole is None or not -whole.dim() <= split_dim < whole.dim():
            return None
        return whole.tensor_split(size, split_dim)[rank].contiguous()

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
        """Read header and data of what `target` asks for into memory; a tensor over it, or None."""
        tensor = self.get_tensor_with_parallelism(key, target)
        if tensor is None or buffer_ptr <= 0:
            return None
        host, header = _pack(tensor)
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
        """Store a whole tensor, split as `parallelism` says."""
        return self._put_parallel(key, tensor, parallelism, config, writer_partition, False)

    def upsert_tensor_with_parallelism(
        self,
        key: str,
        tensor: Any,
        parallelism: Any = None,
        config: Any = None,
        writer_partition: Any = None,
    ) -> int:
        """Store a whole tensor, split as `parallelism` says, replacing an older one."""
        return self._put_parallel(key, tensor, parallelism, config, writer_partition, True)

    def put_tensor_with_parallelism_from(
        self,
        key: str,
        buffer_ptr: int,
        size: int,
        parallelism: Any = None,
        config: Any = None,
        writer_partition: Any = None,
    ) -> int:
        """Store the whole tensor whose header and data lie in memory."""
        tensor = self._host_view_of(buffer_ptr, size)
        if tensor is None:
            return INVALID_PARAMS
        return self._put_parallel(key, tensor, parallelism, config, writer_partition, False)

    def upsert_tensor_with_parallelism_from(
        self,
        key: str,
        buffer_ptr: int,
        size: int,
        parallelism: Any = None,
        config: Any = None,
        writer_partition: Any = None,
    ) -> int:
        """Store the whole tensor whose header and data lie in memory, replacing an older one."""
        tensor = self._host_view_of(buffer_ptr, size)
        if tensor is None:
            return INVALID_PARAMS
        return self._put_parallel(key, tensor, parallelism, config, writer_partition, True)

    def batch_put_tensor_with_parallelism(
        self,
        keys: list[str],
        tensors_list: list,
        parallelisms: Any = None,
        config: Any = None,
        writer_partitions: Any = None,
    ) -> list[int]:
        """Store several whole tensors; a code per key."""
        put = self.put_tensor_with_parallelism
        return _each(put, keys, [tensors_list], parallelisms, config, writer_partitions)

    def batch_upsert_tensor_with_parallelism(
        self,
        keys: list[str],
        tensors_list: list,
        parallelisms: Any = None,
        config: Any = None,
        writer_partitions: Any = None,
    ) -> list[int]:
        """Store several whole tensors, replacing older ones; a code per key."""
        put = self.upsert_tensor_with_parallelism
        return _each(put, keys, [tensors_list], parallelisms, config, writer_partitions)

    def batch_put_tensor_with_parallelism_from(
        self,
        keys: list[str],
        buffer_ptrs: list[int],
        sizes: list[int],
        parallelisms: Any = None,
        config: Any = None,
        writer_partitions: Any = None,
    ) -> list[int]:
        """Store several whole tensors that lie in memory; a code per key."""
        put = self.put_tensor_with_parallelism_from
        return _each(put, keys, [buffer_ptrs, sizes], parallelisms, config, writer_partitions)

    def batch_upsert_tensor_with_parallelism_from(
        self,
        keys: list[str],
        buffer_ptrs: list[int],
        sizes: list[int],
        parallelisms: Any = None,
        config: Any = None,
        writer_partitions: Any = None,
    ) -> list[int]:
        """Store several whole tensors that lie in memory, replacing older ones; a code per key."""
        put = self.upsert_tensor_with_parallelism_from
        return _each(put, keys, [buffer_ptrs, sizes], parallelisms, config, writer_partitions)


def _each(
    put: Any, keys: list, values: list[list], parallelisms: Any, config: Any, partitions: Any
) -> list[int]:
    parallelisms = [None] * len(keys) if parallelisms is None else parallelisms
    partitions = [None] * len(keys) if partitions is None else partitions
    if any(len(column) != len(keys) for column in [*values, parallelisms, partitions]):
        return [INVALID_PARAMS] * len(keys)
    rows = zip(keys, zip(*values), parallelisms, partitions)
    return [put(key, *value, split, config, part) for key, value, split, part in rows]
