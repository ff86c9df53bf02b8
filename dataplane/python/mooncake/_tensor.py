"""Tensor calls on top of the byte calls; torch is imported when the first of them runs.

An object is a header (`_tensor_header`) followed by the tensor's bytes in row-major order. Sharded
tensors are one object per shard under the key `<key>_tp_<rank>`.
"""

from __future__ import annotations

import ctypes
import logging
import math
from typing import Any, Sequence

from ._structured.groups import config_of_positions
from ._tensor_header import (
    DTYPES,
    HEADER_BYTES,
    MAX_DIMENSIONS,
    SHORTEST_BYTES,
    Shard,
    TensorHeader,
    read_header,
    write_header,
)

logger = logging.getLogger("mooncake.store")

MAX_ADDRESS = (1 << 63) - 1
INVALID_PARAMS = -600


def _torch() -> Any:
    import torch

    return torch


def tensor_metadata_size() -> int:
    """Return the bytes of the header in front of a tensor's data."""
    return HEADER_BYTES


def pack(tensor: Any, shard: Shard | None = None) -> tuple[Any, bytes]:
    """Return the tensor as contiguous host memory and its header; ValueError if it has no form."""
    torch = _torch()
    if not isinstance(tensor, torch.Tensor):
        raise ValueError(f"a torch.Tensor is needed, not {type(tensor).__name__}")
    name = str(tensor.dtype).removeprefix("torch.")
    if name not in DTYPES:
        raise ValueError(f"tensors of {tensor.dtype} cannot be stored")
    if tensor.dim() > MAX_DIMENSIONS:
        raise ValueError(f"tensors of {tensor.dim()} dimensions cannot be stored")
    host = tensor.detach().cpu().contiguous()
    return host, write_header(name, tuple(host.shape), shard)


def unpack(buffer: Any) -> Any:
    """Return a tensor over the bytes of `buffer`; None if they are no stored tensor."""
    torch = _torch()
    held = memoryview(buffer)
    found = read_header(held[:HEADER_BYTES], held.nbytes)
    if found is None:
        return None
    kind = getattr(torch, found.dtype)
    if found.data_bytes == 0:
        return torch.empty(found.shape, dtype=kind)
    count = math.prod(found.shape)
    flat = torch.frombuffer(buffer, dtype=kind, offset=found.data_offset, count=count)
    return flat.reshape(found.shape)


def serialize_tensor(tensor: Any) -> tuple[bytes, int, int, Any]:
    """Return the header of a tensor, address and bytes of its data, and what keeps that memory."""
    host, header = pack(tensor)
    return header, host.data_ptr(), host.numel() * host.element_size(), host


def deserialize_tensor(value: bytes) -> Any:
    """Return the tensor of header and data in one bytes object; None if it is none."""
    return unpack(bytearray(value))


def memory(address: int, size: int) -> Any:
    """Return `size` bytes at `address` as a buffer; the caller answers for the address."""
    return (ctypes.c_ubyte * size).from_address(address)


class _DeviceBytes:
    """Memory of an accelerator, as torch takes it without a copy."""

    def __init__(self, address: int, size: int) -> None:
        self.__cuda_array_interface__ = {
            "shape": (size,),
            "typestr": "|u1",
            "data": (address, False),
            "version": 3,
        }


def shard_key(key: str, rank: int) -> str:
    """Return the key of one shard."""
    return f"{key}_tp_{rank}"


class TensorCalls:
    """The tensor methods of `MooncakeDistributedStore`.

    put-like calls return 0 or a negative code per tensor (-600 for a tensor that cannot be stored),
    get-like calls a tensor or None. `_from` and `_into` calls take addresses of memory, of this host or of
    an accelerator, that holds header and data. `_with_tp` calls split along `split_dim` into `tp_size` shards.
    """

    def _put_tensors(
        self,
        keys: Sequence[str],
        tensors: Sequence[Any],
        config: Any,
        replace: bool = False,
        shards: Sequence[Shard | None] | None = None,
    ) -> list[int]:
        if len(keys) != len(tensors):
            return [INVALID_PARAMS] * len(keys)
        codes = [INVALID_PARAMS] * len(keys)
        # Headers and host copies must outlive the call that reads their addresses.
        alive, positions, addresses, sizes = [], [], [], []
        for index, tensor in enumerate(tensors):
            try:
                host, packed = pack(tensor, None if shards is None else shards[index])
            except ValueError as error:
                logger.error("Tensor of key %r: %s", keys[index], error)
                continue
            header = ctypes.create_string_buffer(packed, HEADER_BYTES)
            alive.append((host, header))
            positions.append(index)
            data_bytes = host.numel() * host.element_size()
            address = ctypes.addressof(header)
            addresses.append([address, host.data_ptr()] if data_bytes else [address])
            sizes.append([HEADER_BYTES, data_bytes] if data_bytes else [HEADER_BYTES])
        if positions:
            put = self._batch_upsert_from_multi_buffers if replace else None
            put = put or self.batch_put_from_multi_buffers
            if len(positions) < len(keys):
                config = config_of_positions(config, positions)
            stored = put([keys[index] for index in positions], addresses, sizes, config)
            for index, code in zip(positions, stored):
                codes[index] = code
        del alive
        return codes

    def _put_shards(
        self, key: str, tensor: Any, config: Any, tp_size: int, split_dim: int
    ) -> int:
        if tp_size <= 1:
            return self._put_tensors([key], [tensor], config)[0]
        try:
            shards = tensor.tensor_split(tp_size, split_dim)
        except (AttributeError, IndexError, RuntimeError) as error:
            logger.error("Tensor of key %r cannot be split: %s", key, error)
            return INVALID_PARAMS
        whole, ranks = tuple(tensor.shape), range(tp_size)
        parts = [Shard(whole, rank, tp_size, split_dim) for rank in ranks]
        keys = [shard_key(key, rank) for rank in ranks]
        codes = self._put_tensors(keys, shards, config, shards=parts)
        return next((code for code in codes if code), 0)

    def _view_of(self, address: int, size: int) -> Any:
        """Return a tensor over the header and data at an address, where they are; None if they are none."""
        if address <= 0 or size < SHORTEST_BYTES or address + size > MAX_ADDRESS:
            return None
        device = self._device_of(address, size)
        if device is None:
            return unpack(memory(address, size))
        if device < 0:
            return None
        found = self._header_at(address, size)
        if found is None:
            return None
        torch = _torch()
        kind = getattr(torch, found.dtype)
        if found.data_bytes == 0:
            return torch.empty(found.shape, dtype=kind)
        whole = torch.as_tensor(_DeviceBytes(address, size), device=f"cuda:{device}")
        data = whole[found.data_offset : found.data_offset + found.data_bytes]
        return data.view(kind).reshape(found.shape)

    def _header_at(self, address: int, size: int) -> TensorHeader | None:
        header = self._load(address, min(size, HEADER_BYTES))
        return None if header is None else read_header(header, size)

    def _host_view_of(self, address: int, size: int) -> Any:
        """As `_view_of`, in memory of this host: a copy if they are elsewhere."""
        if address > 0 and SHORTEST_BYTES <= size <= MAX_ADDRESS - address:
            if self._device_of(address, size) is not None:
                found = self._header_at(address, size)
                end = 0 if found is None else found.data_offset + found.data_bytes
                copy = None if found is None else self._load(address, end)
                return None if copy is None else unpack(bytearray(copy))
        return self._view_of(address, size)

    def put_tensor(self, key: str, tensor: Any) -> int:
        """Store a tensor."""
        return self._put_tensors([key], [tensor], None)[0]

    def pub_tensor(self, key: str, tensor: Any, config: Any = None) -> int:
        """Store a tensor as `config` says."""
        return self._put_tensors([key], [tensor], config)[0]

    def upsert_tensor(self, key: str, tensor: Any) -> int:
        """Store a tensor, replacing an older one."""
        return self._put_tensors([key], [tensor], None, replace=True)[0]

    def upsert_pub_tensor(self, key: str, tensor: Any, config: Any = None) -> int:
        """Store a tensor as `config` says, replacing an older one."""
        return self._put_tensors([key], [tensor], config, replace=True)[0]

    def batch_put_tensor(self, keys: list[str], tensors_list: list) -> list[int]:
        """Store several tensors; a code per key."""
        return self._put_tensors(keys, tensors_list, None)

    def batch_pub_tensor(
        self, keys: list[str], tensors_list: list, config: Any = None
    ) -> list[int]:
        """Store several tensors as `config` says; a code per key."""
        return self._put_tensors(keys, tensors_list, config)

    def batch_upsert_tensor(self, keys: list[str], tensors_list: list) -> list[int]:
        """Store several tensors, replacing older ones; a code per key."""
        return self._put_tensors(keys, tensors_list, None, replace=True)

    def batch_upsert_pub_tensor(
        self, keys: list[str], tensors_list: list, config: Any = None
    ) -> list[int]:
        """Store several tensors as `config` says, replacing older ones; a code per key."""
        return self._put_tensors(keys, tensors_list, config, replace=True)

    def get_tensor(self, key: str) -> Any:
        """Return the tensor in memory of its own; None for a miss or what is no tensor."""
        return self.batch_get_tensor([key])[0]

    def batch_get_tensor(self, keys: list[str]) -> list:
        """Return a tensor or None per key."""
        handles = self.batch_get_buffer(keys)
        return [None if handle is None else unpack(handle) for handle in handles]

    def put_tensor_from(self, key: str, buffer_ptr: int, size: int) -> int:
        """Store `size` bytes of header and data."""
        return self.put_from(key, buffer_ptr, size)

    def upsert_tensor_from(self, key: str, buffer_ptr: int, size: int) -> int:
        """Store `size` bytes of header and data, replacing an older tensor."""
        return self.upsert_from(key, buffer_ptr, size)

    def batch_put_tensor_from(
        self, keys: list[str], buffer_ptrs: list[int], sizes: list[int]
    ) -> list[int]:
        """Store header and data of several tensors; a code per key."""
        return self.batch_put_from(keys, buffer_ptrs, sizes)

    def batch_upsert_tensor_from(
        self, keys: list[str], buffer_ptrs: list[int], sizes: list[int]
    ) -> list[int]:
        """Store header and data of several tensors, replacing older ones; a code per key."""
        return self.batch_upsert_from(keys, buffer_ptrs, sizes)

    def get_tensor_into(self, key: str, buffer_ptr: int, size: int) -> Any:
        """Read header and data into memory; return a tensor over it, or None."""
        return self.batch_get_tensor_into([key], [buffer_ptr], [size])[0]

    def batch_get_tensor_into(
        self, keys: list[str], buffer_ptrs: list[int], sizes: list[int]
    ) -> list:
        """Read several tensors into memory; a tensor over it or None per key.

        Lists of different lengths answer -600 per key, as with Mooncake.
        """
        if not len(keys) == len(buffer_ptrs) == len(sizes):
            return [INVALID_PARAMS] * len(keys)
        read = self.batch_get_into(keys, buffer_ptrs, sizes)
        return [self._view_of(address, size) for address, size in zip(buffer_ptrs, read)]

    def get_tensor_into_cuda(self, key: str, tensor: Any) -> int:
        """Copy the stored tensor into `tensor`, on any device; return its bytes or a code."""
        return self.batch_get_tensor_into_cuda([key], [tensor])[0]

    def batch_get_tensor_into_cuda(self, keys: list[str], tensors_list: list) -> list[int]:
        """Copy stored tensors into given ones; bytes or a negative code per key."""
        if len(keys) != len(tensors_list):
            return [INVALID_PARAMS] * len(keys)
        results = []
        for key, target, value in zip(keys, tensors_list, self.batch_get_tensor(keys)):
            if value is None:
                results.append(min(self.get_size(key), 0) or INVALID_PARAMS)
            elif value.shape != target.shape or value.dtype != target.dtype:
                results.append(INVALID_PARAMS)
            else:
                target.copy_(value)
                results.append(value.numel() * value.element_size())
        return results

    def put_tensor_with_tp(
        self, key: str, tensor: Any, tp_rank: int = 0, tp_size: int = 1, split_dim: int = 0
    ) -> int:
        """Store all `tp_size` shards of a whole tensor; `tp_rank` does not matter."""
        return self._put_shards(key, tensor, None, tp_size, split_dim)

    def pub_tensor_with_tp(
        self,
        key: str,
        tensor: Any,
        config: Any = None,
        tp_rank: int = 0,
        tp_size: int = 1,
        split_dim: int = 0,
    ) -> int:
        """As `put_tensor_with_tp`, placed as `config` says."""
        return self._put_shards(key, tensor, config, tp_size, split_dim)

    def batch_put_tensor_with_tp(
        self,
        base_keys: list[str],
        tensors_list: list,
        tp_rank: int = 0,
        tp_size: int = 1,
        split_dim: int = 0,
    ) -> list[int]:
        """Store the shards of several tensors; a code per tensor."""
        return self.batch_pub_tensor_with_tp(
            base_keys, tensors_list, None, tp_rank, tp_size, split_dim
        )

    def batch_pub_tensor_with_tp(
        self,
        base_keys: list[str],
        tensors_list: list,
        config: Any = None,
        tp_rank: int = 0,
        tp_size: int = 1,
        split_dim: int = 0,
    ) -> list[int]:
        """As `batch_put_tensor_with_tp`, placed as `config` says."""
        if len(base_keys) != len(tensors_list):
            return [INVALID_PARAMS] * len(base_keys)
        pairs = zip(base_keys, tensors_list)
        return [self._put_shards(key, it, config, tp_size, split_dim) for key, it in pairs]

    def get_tensor_with_tp(
        self, key: str, tp_rank: int = 0, tp_size: int = 1, split_dim: int = 0
    ) -> Any:
        """Return the shard of one rank, or None."""
        return self.get_tensor(shard_key(key, tp_rank) if tp_size > 1 else key)

    def batch_get_tensor_with_tp(
        self, base_keys: list[str], tp_rank: int = 0, tp_size: int = 1
    ) -> list:
        """Return the shard of one rank, or None, per key."""
        keys = [shard_key(key, tp_rank) if tp_size > 1 else key for key in base_keys]
        return self.batch_get_tensor(keys)

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
        return self.batch_get_tensor_with_tp_into([key], [buffer_ptr], [size], tp_rank, tp_size)[0]

    def batch_get_tensor_with_tp_into(
        self,
        base_keys: list[str],
        buffer_ptrs: list[int],
        sizes: list[int],
        tp_rank: int = 0,
        tp_size: int = 1,
    ) -> list:
        """Read the shards of one rank into memory; a tensor over it or None per key."""
        keys = [shard_key(key, tp_rank) if tp_size > 1 else key for key in base_keys]
        return self.batch_get_tensor_into(keys, buffer_ptrs, sizes)

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
        tensor = self._host_view_of(buffer_ptr, size)
        if tensor is None:
            return INVALID_PARAMS
        return self._put_shards(key, tensor, None, tp_size, split_dim)

    def batch_put_tensor_with_tp_from(
        self,
        base_keys: list[str],
        buffer_ptrs: list[int],
        sizes: list[int],
        tp_rank: int = 0,
        tp_size: int = 1,
        split_dim: int = 0,
    ) -> list[int]:
        """Store the shards of several tensors in memory; a code per tensor."""
        if not len(base_keys) == len(buffer_ptrs) == len(sizes):
            return [INVALID_PARAMS] * len(base_keys)
        return [
            self.put_tensor_with_tp_from(key, address, size, tp_rank, tp_size, split_dim)
            for key, address, size in zip(base_keys, buffer_ptrs, sizes)
        ]

    def save_tensor_to_safetensor(self, key: str, file_name: str | None = None) -> int:
        """Write a stored tensor to a safetensors file, named as the key by default."""
        from safetensors.torch import save_file

        tensor = self.get_tensor(key)
        if tensor is None:
            return min(self.get_size(key), 0) or INVALID_PARAMS
        save_file({key: tensor}, file_name or key)
        return 0

    def load_tensor_from_safetensor(self, key: str | None = None, file_name: str = "") -> Any:
        """Return a tensor of a safetensors file, the only one if `key` is none of its, and store it.

        It is stored as `key`, or under its name in the file without one. None if the file cannot be
        read, has no such tensor, or the tensor could not be stored.
        """
        from safetensors.torch import load_file

        try:
            tensors = load_file(file_name)
        except Exception as error:  # a missing or broken file has several types
            logger.error("Tensors of %r cannot be read: %s", file_name, error)
            return None
        only = next(iter(tensors)) if len(tensors) == 1 else None
        name = key if key in tensors else only
        if name is None:
            return None
        code = self.put_tensor(name if key is None else key, tensors[name])
        return tensors[name] if code == 0 else None
