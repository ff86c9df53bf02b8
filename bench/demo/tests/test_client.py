"""A demo client against a store that lives in a dictionary: what it counts is what happened."""

import ctypes
import sys
import types

import pytest

from bench.demo.content import Content

BLOCK_BYTES = 4096


class DictionaryStore:
    """The few calls a client makes."""

    def __init__(self):
        self.values = {}
        self.code_of_setup = 0

    def setup(self, *_arguments):
        return self.code_of_setup

    def register_buffer(self, _address, _count):
        return 0

    def batch_is_exist(self, keys):
        return [int(key in self.values) for key in keys]

    def batch_get_into(self, keys, addresses, sizes):
        codes = []
        for key, address, size in zip(keys, addresses, sizes, strict=True):
            value = self.values.get(key)
            if value is None:
                codes.append(-704)
            else:
                ctypes.memmove(address, value, size)
                codes.append(len(value))
        return codes

    def batch_put_from(self, keys, addresses, sizes):
        for key, address, size in zip(keys, addresses, sizes, strict=True):
            self.values[key] = ctypes.string_at(address, size)
        return [0] * len(keys)


@pytest.fixture
def store(monkeypatch):
    made = DictionaryStore()
    module = types.ModuleType("mooncake.store")
    module.MooncakeDistributedStore = lambda: made
    monkeypatch.setitem(sys.modules, "mooncake", types.ModuleType("mooncake"))
    monkeypatch.setitem(sys.modules, "mooncake.store", module)
    return made


def serve(requests):
    from bench.demo.client import Client

    client = Client({"setup": [], "block_bytes": BLOCK_BYTES, "requests": requests})
    client.run(lambda done: None)
    return client.tally


def test_second_turn_hits_what_the_first_has_stored(store):
    tally = serve([[1, 2], [1, 2, 3]])
    assert (tally.requests, tally.blocks, tally.hits, tally.stored) == (2, 5, 2, 3)
    assert tally.get_bytes == 2 * BLOCK_BYTES and tally.put_bytes == 3 * BLOCK_BYTES
    assert tally.corrupt == tally.lost == tally.refused == 0
    assert len(tally.latencies["request"]) == 2 and len(tally.latencies["get"]) == 1


@pytest.mark.parametrize("position", [0, 15, 16, BLOCK_BYTES - 1])
def test_one_wrong_byte_anywhere_is_corrupt(store, position):
    serve([[1, 2]])
    key = f"demo-{BLOCK_BYTES}-1"
    value = bytearray(store.values[key])
    value[position] ^= 1
    store.values[key] = bytes(value)
    tally = serve([[1, 2]])
    assert (tally.corrupt, tally.hits) == (1, 0)


def test_the_value_of_another_key_is_corrupt(store):
    serve([[1, 2]])
    store.values[f"demo-{BLOCK_BYTES}-1"] = store.values[f"demo-{BLOCK_BYTES}-2"]
    assert serve([[1]]).corrupt == 1


def test_a_block_lost_between_exist_and_get_is_counted_with_its_code(store):
    serve([[1, 2]])
    store.batch_is_exist = lambda keys: [1] * len(keys)
    del store.values[f"demo-{BLOCK_BYTES}-1"]
    tally = serve([[1, 2]])
    assert (tally.lost, tally.hits, tally.codes) == (1, 0, {"get -704": 1})


def test_a_refused_put_is_counted_with_its_code(store):
    store.batch_put_from = lambda keys, addresses, sizes: [-200] * len(keys)
    tally = serve([[1, 2]])
    assert (tally.refused, tally.stored, tally.codes) == (2, 0, {"put -200": 2})


def test_a_failed_setup_stops_the_client(store):
    store.code_of_setup = -900
    with pytest.raises(RuntimeError, match="setup returned -900"):
        serve([[1]])


def test_values_of_different_keys_differ_and_short_values_work():
    content = Content(64)
    values = set()
    for key in range(200):
        buffer = ctypes.create_string_buffer(64)
        content.fill(str(key), ctypes.addressof(buffer), 64)
        values.add(buffer.raw)
    assert len(values) == 200
    short = ctypes.create_string_buffer(3)
    content.fill("a", ctypes.addressof(short), 3)
    assert content.matches("a", ctypes.addressof(short), 3)
    assert not content.matches("b", ctypes.addressof(short), 3)
