"""Facts about what a worker counts, with a store in a dict."""

import ctypes
import time

import pytest

from bench.side_by_side.weights import sizes_of
from bench.side_by_side.worker import OPERATIONS, Worker

SIZE = 4096


class DictStore:
    """As much of a store as a worker calls."""

    def __init__(self):
        self.objects = {}

    def setup(self, *_):
        return 0

    def register_buffer(self, _address, _size):
        return 0

    def put(self, key, value):
        self.objects[key] = value
        return 0

    def get(self, key):
        return self.objects.get(key, b"")

    def batch_put_from(self, keys, addresses, sizes):
        return [self.put(key, ctypes.string_at(at, size)) for key, at, size in zip(keys, addresses, sizes)]

    def batch_put_tensor_from(self, keys, addresses, sizes):
        return self.batch_put_from(keys, addresses, sizes)

    def batch_get_into(self, keys, addresses, _sizes):
        codes = []
        for key, address in zip(keys, addresses):
            value = self.objects.get(key)
            if value is not None:
                ctypes.memmove(address, value, len(value))
            codes.append(-704 if value is None else len(value))
        return codes

    def is_exist(self, key):
        return int(key in self.objects)

    def batch_is_exist(self, keys):
        return [self.is_exist(key) for key in keys]

    def remove_all(self, _force):
        self.objects.clear()
        return 0


@pytest.fixture
def worker(monkeypatch):
    import sys
    import types

    module = types.ModuleType("mooncake.store")
    module.MooncakeDistributedStore = DictStore
    monkeypatch.setitem(sys.modules, "mooncake", types.ModuleType("mooncake"))
    monkeypatch.setitem(sys.modules, "mooncake.store", module)
    return Worker(["host"], 64 * SIZE, SIZE)


def job(operation, batch, keys=None):
    return {
        "operation": operation,
        "size": SIZE,
        "batch": batch,
        "keys": keys,
        "seconds": 0.02,
        "cap_bytes": 64 * SIZE,
        "start_at": time.monotonic(),
        "seed": 1,
        "prefix": operation,
    }


@pytest.mark.parametrize("operation", sorted(OPERATIONS))
def test_every_operation_succeeds_on_a_store_that_works(worker, operation):
    batch = 4 if operation.startswith("batch") else 1
    keys = [f"key-{i}" for i in range(16)]
    assert worker.fill(keys, SIZE, 4) == {"refused": 0}
    answer = worker.measure(job(operation, batch, keys))
    assert answer["calls"] > 0
    assert answer["items"] == answer["calls"] * batch
    assert answer["errors"] == answer["corrupt"] == 0
    assert (answer["checked"] > 0) == ("exist" not in operation)


@pytest.mark.parametrize("operation", ["batch_get_into", "get"])
def test_one_wrong_byte_is_corruption(worker, operation):
    keys = [f"key-{i}" for i in range(4)]
    worker.fill(keys, SIZE, 4)
    value = bytearray(worker.store.objects["key-2"])
    value[SIZE // 2] ^= 1
    worker.store.objects["key-2"] = bytes(value)
    answer = worker.measure(job(operation, 4 if operation == "batch_get_into" else 1, keys))
    assert answer["corrupt"] == 1


def test_a_missing_key_is_an_error_and_not_corruption(worker):
    keys = [f"key-{i}" for i in range(4)]
    worker.fill(keys[:3], SIZE, 3)
    answer = worker.measure(job("batch_get_into", 4, keys))
    assert answer["errors"] == answer["calls"]
    assert answer["corrupt"] == 0


def test_a_put_stops_at_its_cap(worker):
    answer = worker.measure({**job("put", 1), "seconds": 60})
    assert answer["calls"] == 64


def test_values_that_do_not_fit_the_buffer_are_refused(worker):
    with pytest.raises(RuntimeError, match="do not fit"):
        worker.places(65, SIZE)


def test_a_weight_update_is_written_and_read_in_one_call_each(worker):
    update = {"tensors": 8, "bytes": 16 * SIZE, "update": 0}
    written = worker.update({**update, "operation": "put"})
    assert (written["items"], written["errors"]) == (8, 0)
    read = worker.update({**update, "operation": "get"})
    assert (read["items"], read["checked"], read["corrupt"]) == (8, 8, 0)
    key = "weights-0/layer-3"
    worker.store.objects[key] = worker.store.objects[key][:-1] + b"?"
    assert worker.update({**update, "operation": "get"})["corrupt"] == 1
    del worker.store.objects[key]
    read = worker.update({**update, "operation": "get"})
    assert (read["errors"], read["corrupt"]) == (1, 0)


def test_tensors_of_an_update_have_mixed_sizes_and_the_wanted_sum():
    sizes = sizes_of(1000, 2 << 30)
    assert abs(sum(sizes) - (2 << 30)) < 1 << 20
    assert min(sizes) < 8 << 10 and max(sizes) > 8 << 20
