"""Stores inside a caller's own class, handed out by the private calls that Mooncake's pools make."""

import pytest
from fake_store import FakeStore

import mooncake.store
from mooncake.buffer_pool import BufferPool
from mooncake.store import EngramStore, EngramStoreConfig, MooncakeDistributedStore


class Wrapper:
    """Has no call of a store but the one that hands it out."""

    def __init__(self, client):
        self.client = client

    def _get_pyclient_capsule(self):
        return self.client


def test_a_store_that_is_set_up_is_handed_out_and_another_is_none(store):
    assert store._get_pyclient_capsule() is store
    assert mooncake.store._get_pyclient_from_wrapper(store) is store
    fresh = MooncakeDistributedStore()
    assert fresh._get_pyclient_capsule() is None
    assert mooncake.store._get_pyclient_from_wrapper(fresh) is None


def test_pools_and_tables_find_the_store_in_a_wrapper(store):
    wrapper = Wrapper(store._get_pyclient_capsule())
    with BufferPool(wrapper) as pool, pool.acquire(64) as lease:
        lease.buffer[:5] = b"bytes"
        assert store.put_from("wrapped", lease.ptr, 5) == 0
    assert store.get("wrapped") == b"bytes"
    config = EngramStoreConfig()
    config.table_vocab_sizes, config.embedding_dim = [2], 4
    EngramStore(1, config, wrapper).remove_from_store()


def test_a_wrapper_with_calls_of_its_own_is_used_as_it_is():
    class Counting(FakeStore):
        def _get_pyclient_capsule(self):
            raise AssertionError("not asked")

    counting = Counting()
    with BufferPool(counting) as pool, pool.acquire(64) as lease:
        assert lease.ptr in counting.registered


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (None, "needs a store"),
        (object(), "needs a store, or a wrapper whose _get_pyclient_capsule"),
        (Wrapper(None), "not set up: call setup"),
        (Wrapper("x"), "must return what the same call of MooncakeDistributedStore returns, not str"),
    ],
)
def test_what_is_no_store_is_refused_in_a_sentence(given, sentence):
    with pytest.raises(RuntimeError, match=sentence):
        BufferPool(given)
