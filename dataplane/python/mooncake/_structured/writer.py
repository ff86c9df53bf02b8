"""Putting payloads: in chunks, through a buffer pool, from the source itself, or by plain puts.

Invariant: a payload that could not be written whole leaves none of its chunks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from .groups import config_for_keys
from .model import DEFAULT_CHUNK_BYTES, BundleTransferPolicy
from .removal import remove_keys
from .sources import ScatteredPayload, TensorObjectBuffer, address_of, chunks_of, copy_pieces

PARALLEL_MIN_BYTES = DEFAULT_CHUNK_BYTES
PARALLEL_MIN_CHUNKS = 8
ALREADY_REGISTERED = -600

Chunk = tuple[str, list[memoryview]]


def call(function: Callable[..., Any], *arguments: Any, config: Any) -> Any:
    """Call a store function; a store without configurations is asked for none."""
    return function(*arguments) if config is None else function(*arguments, config=config)


def check_code(code: Any, what: str, key: str) -> None:
    """Raise RuntimeError unless a store call answered 0."""
    if code not in (None, 0):
        raise RuntimeError(f"{what} of {key!r} answered {code}")


class PayloadWriter:
    """Writes payloads into a store."""

    def __init__(self, store: Any, buffer_pool: Any = None) -> None:
        self._store = store
        self._pool = buffer_pool

    def put_bytes(self, key: str, value: Any, config: Any) -> None:
        """Put one object."""
        code = call(self._store.put, key, value, config=config_for_keys(config, 1))
        check_code(code, "put", key)

    def put(
        self,
        key: str,
        payload: ScatteredPayload,
        chunk_bytes: int,
        policy: BundleTransferPolicy,
        config: Any,
    ) -> dict[str, Any]:
        """Put a payload in chunks; return its entry of a manifest."""
        pieces = list(chunks_of(payload.buffers, chunk_bytes))
        names = [key] if len(pieces) == 1 else [f"{key}/chunk/{at}" for at in range(len(pieces))]
        chunks = list(zip(names, pieces))
        put_chunk = self._way(chunks, policy)
        try:
            if self._parallel(chunks, policy):
                with ThreadPoolExecutor(min(policy.max_inflight_put, len(chunks))) as threads:
                    list(threads.map(lambda chunk: put_chunk(chunk, config), chunks))
            else:
                for chunk in chunks:
                    put_chunk(chunk, config)
        except BaseException:
            remove_keys(self._store, names, strict=False)
            raise
        sizes = [sum(piece.nbytes for piece in group) for group in pieces]
        entries = [{"key": name, "bytes": size} for name, size in zip(names, sizes)]
        return {"key": key, "bytes": sum(sizes), "chunks": entries}

    def put_tensor_object(
        self, key: str, source: TensorObjectBuffer, config: Any
    ) -> dict[str, Any]:
        """Put header and data of a tensor from registered memory, as one object."""
        put = getattr(self._store, "put_tensor_from", None) if config is None else None
        put = put or getattr(self._store, "put_from", None)
        if not callable(put):
            raise RuntimeError("the store has no put_from, which a tensor_object_buffer needs")
        code = call(put, key, source.ptr, source.size, config=config_for_keys(config, 1))
        check_code(code, "put_tensor_from", key)
        return {"key": key, "bytes": source.size, "chunks": [{"key": key, "bytes": source.size}]}

    def put_tensor(self, key: str, tensor: Any, config: Any) -> bool:
        """Put a tensor as a tensor object; False if the store has no call for it."""
        put = getattr(self._store, "put_tensor" if config is None else "pub_tensor", None)
        if not callable(put):
            return False
        code = call(put, key, tensor, config=config_for_keys(config, 1))
        check_code(code, "put_tensor", key)
        return True

    def _way(
        self, chunks: Sequence[Chunk], policy: BundleTransferPolicy
    ) -> Callable[[Chunk, Any], None]:
        if policy.copy_mode == "zero_copy":
            gathered = any(len(pieces) > 1 for _, pieces in chunks)
            if gathered or not self._has("batch_put_from", "register_buffer", "unregister_buffer"):
                raise RuntimeError(
                    "a zero-copy put needs one buffer per chunk, and a store with register_buffer "
                    "and batch_put_from; use copy_mode 'auto'"
                )
            return self._put_in_place
        pooled = self._pool is not None and self._has("batch_put_from")
        if policy.copy_mode == "copy" or not pooled:
            return self._put_copied
        return self._put_through_pool

    def _put_copied(self, chunk: Chunk, config: Any) -> None:
        key, pieces = chunk
        self.put_bytes(key, pieces[0] if len(pieces) == 1 else b"".join(pieces), config)

    def _put_through_pool(self, chunk: Chunk, config: Any) -> None:
        key, pieces = chunk
        size = sum(piece.nbytes for piece in pieces)
        lease = self._pool.acquire(size)
        try:
            with lease.buffer as memory:
                copy_pieces(pieces, memory.cast("B") if memory.format != "B" else memory)
            self._put_from(key, lease.ptr, size, config)
        finally:
            lease.release()

    def _put_in_place(self, chunk: Chunk, config: Any) -> None:
        key, (piece,) = chunk
        address = address_of(piece)
        with Registration(self._store, address, piece.nbytes):
            self._put_from(key, address, piece.nbytes, config)

    def _put_from(self, key: str, address: int, size: int, config: Any) -> None:
        put = self._store.batch_put_from
        codes = call(put, [key], [address], [size], config=config_for_keys(config, 1))
        check_code(codes[0], "batch_put_from", key)

    def _parallel(self, chunks: Sequence[Chunk], policy: BundleTransferPolicy) -> bool:
        if policy.max_inflight_put < 2 or len(chunks) < 2 or policy.put_mode == "batch":
            return False
        if policy.put_mode == "parallel":
            return True
        total = sum(piece.nbytes for _, pieces in chunks for piece in pieces)
        return len(chunks) >= PARALLEL_MIN_CHUNKS and total >= PARALLEL_MIN_BYTES

    def _has(self, *names: str) -> bool:
        return has_calls(self._store, names)


class Registration:
    """Memory that is registered for the time of a call, unless the store knew it before."""

    def __init__(self, store: Any, address: int, size: int) -> None:
        self._store, self._address, self._size = store, address, size
        self._ours = False

    def __enter__(self) -> None:
        code = self._store.register_buffer(self._address, self._size)
        if code != ALREADY_REGISTERED:
            check_code(code, "register_buffer", hex(self._address))
            self._ours = True

    def __exit__(self, *_: object) -> None:
        if self._ours:
            self._store.unregister_buffer(self._address)


def has_calls(store: Any, names: Iterable[str]) -> bool:
    """Whether the store has all these calls."""
    return all(callable(getattr(store, name, None)) for name in names)
