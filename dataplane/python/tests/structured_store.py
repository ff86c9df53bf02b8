"""Stores in a dictionary for structured objects: one with all fast calls, one with none."""

import ctypes
import weakref

from fake_store import FakeStore


class PlainStore:
    """`put`, `get` and `remove` only. `fail_at` makes the nth put fail."""

    def __init__(self, fail_at=0):
        self.values, self.configs, self.puts, self.fail_at = {}, [], 0, fail_at

    def put(self, key, value, config=None):
        self.puts += 1
        if self.puts == self.fail_at:
            return -200
        self.values[key] = bytes(value)
        self.configs.append(config)
        return 0

    def get(self, key):
        return self.values.get(key, b"")

    def remove(self, key, force=False):
        return 0 if self.values.pop(key, None) is not None else -704


class FastStore(PlainStore):
    """All calls of the client that structured objects use; `calls` counts the reads."""

    def __init__(self, fail_at=0):
        super().__init__(fail_at)
        self.calls, self.registered, self.bytes_read, self.known = {}, {}, 0, set()

    register_buffer = FakeStore.register_buffer
    unregister_buffer = FakeStore.unregister_buffer

    def batch_put_from(self, keys, addresses, sizes, config=None):
        assert all(self._is_known(*it) for it in zip(addresses, sizes))
        parts = [ctypes.string_at(*it) for it in zip(addresses, sizes)]
        return [self.put(key, part, config) for key, part in zip(keys, parts)]

    def batch_remove(self, keys, force=False):
        return [self.remove(key, force) for key in keys]

    def get_into(self, key, address, size):
        return self._read("get_into", key, address, 0, size)

    def batch_get_into(self, keys, addresses, sizes):
        parts = zip(keys, addresses, sizes)
        return [self._read("batch_get_into", key, to, 0, size) for key, to, size in parts]

    def get_into_ranges(self, addresses, keys, targets, sources, sizes):
        return [
            [
                [
                    self._read("get_into_ranges", key, address + target, source, size)
                    for target, source, size in zip(*ranges)
                ]
                for key, *ranges in zip(names, *groups)
            ]
            for address, names, *groups in zip(addresses, keys, targets, sources, sizes)
        ]

    def _read(self, call, key, address, source, size):
        assert self._is_known(address, size)
        self.calls[call] = self.calls.get(call, 0) + 1
        part = self.values.get(key, b"")[source : source + size]
        ctypes.memmove(address, part, len(part))
        self.bytes_read += len(part)
        return len(part) if key in self.values else -704

    def _is_known(self, address, size):
        spans = [*self.registered.items(), *self.known]
        return any(start <= address and address + size <= start + room for start, room in spans)


class Pool:
    """A buffer pool over a store that knows its memory."""

    def __init__(self, store):
        self.store, self.lent, self.most = store, 0, 0

    def acquire(self, size):
        self.lent += 1
        self.most = max(self.most, self.lent)
        return Lease(self, size)


    def take_back(self, span):
        self.lent -= 1
        self.store.known.discard(span)


class Lease:
    """Goes back by `release`, or when it is dropped."""

    def __init__(self, pool, size):
        self.memory = ctypes.create_string_buffer(size)
        self.ptr = ctypes.addressof(self.memory)
        pool.store.known.add((self.ptr, size))
        self.release = weakref.finalize(self, pool.take_back, (self.ptr, size))

    @property
    def buffer(self):
        return memoryview(self.memory).cast("B")


class Config:
    """What `ReplicateConfig` has, for a store in a dictionary."""

    def __init__(self, group_ids=None):
        self.group_ids = group_ids
