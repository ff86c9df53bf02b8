"""Engram tables: embedding rows of one layer in the store, one object per head.

Invariant: a layer that `populate` could not store whole leaves none of its tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from ._wrapped import client_of

if TYPE_CHECKING:
    import numpy

ROW_TYPE = "float32"
STORE_MISS = -704


class EngramStoreConfig:
    """The tables of a layer.

    Attributes: table_vocab_sizes (rows of each head's table), embedding_dim (numbers of a row).
    """

    def __init__(self) -> None:
        self.table_vocab_sizes: list[int] = [1024]
        self.embedding_dim: int = 64


class EngramStore:
    """The tables of layer `layer_id`, under the keys `engram:l<layer>:h<head>`.

    Needs numpy. Without a store only the calls that describe the tables work. Wrong sizes are
    ValueError, a failed store call is RuntimeError.
    """

    def __init__(self, layer_id: int, config: EngramStoreConfig, store: Any = None) -> None:
        sizes = [int(size) for size in config.table_vocab_sizes]
        if not sizes or min(sizes) < 1 or config.embedding_dim < 1:
            raise ValueError("table_vocab_sizes and embedding_dim must be 1 or more, and not empty")
        self._sizes, self._dim = sizes, int(config.embedding_dim)
        self._store = None if store is None else client_of(store, "EngramStore")
        self._keys = [f"engram:l{layer_id}:h{head}" for head in range(len(sizes))]

    def get_table_vocab_sizes(self) -> list[int]:
        """Return the rows of each head's table."""
        return list(self._sizes)

    def get_store_keys(self) -> list[str]:
        """Return the key of each head's table."""
        return list(self._keys)

    def get_num_heads(self) -> int:
        """Return the number of tables."""
        return len(self._sizes)

    def get_embedding_dim(self) -> int:
        """Return the numbers of a row."""
        return self._dim

    def populate(self, embedding_buffers: Sequence[Any]) -> None:
        """Store the tables, an array of shape [rows, embedding_dim] per head, as float32.

        The layer must not be stored yet: RuntimeError names a table that is there.
        """
        import numpy

        from ._structured.writer import Registration

        if len(embedding_buffers) != len(self._sizes):
            raise ValueError(f"{len(self._sizes)} tables are needed, not {len(embedding_buffers)}")
        tables = [numpy.ascontiguousarray(it, dtype=ROW_TYPE) for it in embedding_buffers]
        for head, (table, size) in enumerate(zip(tables, self._sizes)):
            if table.shape != (size, self._dim):
                raise ValueError(f"table {head} is {table.shape}, not {(size, self._dim)}")
        store = self._connected()
        for key, found in zip(self._keys, store.batch_is_exist(self._keys)):
            if found:
                problem = "is stored already; remove_from_store first" if found > 0 else found
                raise RuntimeError(f"table {key!r}: {problem}")
        with ExitStack() as registered:
            for table in tables:
                registered.enter_context(Registration(store, table.ctypes.data, table.nbytes))
            addresses = [table.ctypes.data for table in tables]
            codes = store.batch_put_from(self._keys, addresses, [it.nbytes for it in tables])
        if any(codes):
            for key, code in zip(self._keys, codes):
                if code == 0:
                    store.remove(key, True)
            raise RuntimeError(
                f"the tables of {self._keys[0]!r} and on could not be stored: {codes}"
            )

    def lookup(self, row_ids: Any) -> numpy.ndarray:
        """Return rows, [batch, tokens, heads, embedding_dim] for ids [batch, tokens, heads].

        Only these rows are read, each once however often it is asked for.
        """
        import numpy

        ids = numpy.asarray(row_ids, dtype=numpy.int64)
        if ids.ndim != 3 or not ids.size or ids.shape[2] != len(self._sizes):
            raise ValueError(
                f"row ids must be [batch, tokens, {len(self._sizes)}], not {ids.shape}"
            )
        if (ids < 0).any() or (ids >= numpy.asarray(self._sizes)).any():
            raise ValueError("a row id is below 0 or beyond its table")
        unique = [
            numpy.unique(ids[:, :, head], return_inverse=True) for head in range(ids.shape[2])
        ]
        rows = numpy.empty((sum(len(it) for it, _ in unique), self._dim), dtype=ROW_TYPE)
        self._read([it.tolist() for it, _ in unique], rows)
        found = numpy.empty((*ids.shape, self._dim), dtype=ROW_TYPE)
        first = 0
        for head, (numbers, places) in enumerate(unique):
            part = rows[first : first + len(numbers)]
            found[:, :, head] = part[places.reshape(ids.shape[:2])]
            first += len(numbers)
        return found

    def remove_from_store(self, force: bool = False) -> int:
        """Remove the tables and return how many there were; RuntimeError if one stays."""
        codes = [self._connected().remove(key, force) for key in self._keys]
        wrong = [code for code in codes if code not in (0, STORE_MISS)]
        if wrong:
            raise RuntimeError(
                f"a table of {self._keys[0]!r} and on could not be removed: {wrong[0]}"
            )
        return codes.count(0)

    def _read(self, numbers: list[list[int]], rows: numpy.ndarray) -> None:
        from ._structured.writer import Registration

        store, size = self._connected(), rows.itemsize * self._dim
        targets, first = [], 0
        for chosen in numbers:
            targets.append([(first + at) * size for at in range(len(chosen))])
            first += len(chosen)
        address = rows.ctypes.data
        with Registration(store, address, rows.nbytes):
            (read,) = store.get_into_ranges(
                [address],
                [self._keys],
                [targets],
                [[[number * size for number in chosen] for chosen in numbers]],
                [[[size] * len(chosen) for chosen in numbers]],
            )
        for key, answers in zip(self._keys, read):
            wrong = [answer for answer in answers if answer != size]
            if wrong:
                raise RuntimeError(f"rows of table {key!r} could not be read: {wrong[0]}")

    def _connected(self) -> Any:
        if self._store is None:
            raise RuntimeError("this EngramStore was made without a store")
        return self._store
