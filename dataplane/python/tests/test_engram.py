"""Engram tables in a real cluster."""

import pytest

np = pytest.importorskip("numpy", reason="engram tables need numpy")
from mooncake.store import EngramStore, EngramStoreConfig  # noqa: E402

SIZES = [17, 19, 23]
DIM = 8


def layer(store=None, number=3):
    config = EngramStoreConfig()
    config.table_vocab_sizes, config.embedding_dim = SIZES, DIM
    return EngramStore(layer_id=number, config=config, store=store)


def tables():
    return [np.random.default_rng(size).random((size, DIM), np.float32) for size in SIZES]


def test_a_layer_without_a_store_describes_its_tables():
    engram = layer()
    assert engram.get_store_keys() == ["engram:l3:h0", "engram:l3:h1", "engram:l3:h2"]
    assert engram.get_table_vocab_sizes() == SIZES
    assert (engram.get_num_heads(), engram.get_embedding_dim()) == (3, DIM)
    with pytest.raises(RuntimeError, match="without a store"):
        engram.lookup([[[0, 0, 0]]])


@pytest.mark.parametrize(("sizes", "dim"), [([], 8), ([0], 8), ([1], 0)])
def test_tables_have_rows_and_numbers(sizes, dim):
    config = EngramStoreConfig()
    config.table_vocab_sizes, config.embedding_dim = sizes, dim
    with pytest.raises(ValueError, match="1 or more"):
        EngramStore(1, config)


@pytest.mark.cluster
def test_rows_come_back_and_tables_go(store):
    engram, held = layer(store), tables()
    engram.populate(held)
    ids = np.random.default_rng(1).integers(0, 17, (2, 5, 3))
    found = engram.lookup(ids)
    for head, table in enumerate(held):
        assert np.array_equal(found[:, :, head], table[ids[:, :, head]])
    assert np.array_equal(layer(store).lookup(ids.tolist()), found)
    with pytest.raises(RuntimeError, match="stored already"):
        engram.populate(held)
    assert engram.remove_from_store(True) == 3 and engram.remove_from_store(True) == 0
    with pytest.raises(RuntimeError, match="could not be read"):
        engram.lookup(ids)


@pytest.mark.cluster
def test_wrong_tables_and_ids_are_refused(store):
    engram, held = layer(store), tables()
    for wrong in (held[:2], [held[0], held[1], held[2][:-1]], [it.T for it in held]):
        with pytest.raises(ValueError, match="table"):
            engram.populate(wrong)
    engram.populate(held)
    for ids in ([], [[[0, 0]]], [[[17, 0, 0]]], [[[-1, 0, 0]]]):
        with pytest.raises(ValueError, match="row id"):
            engram.lookup(ids)


@pytest.mark.cluster
def test_a_table_that_does_not_fit_takes_the_others_away(store):
    config = EngramStoreConfig()
    config.table_vocab_sizes, config.embedding_dim = [1, 1 << 20], 256
    engram = EngramStore(1, config, store)
    with pytest.raises(RuntimeError, match="could not be stored"):
        engram.populate([np.zeros((rows, 256), np.float32) for rows in (1, 1 << 20)])
    assert store.batch_is_exist(engram.get_store_keys()) == [0, 0]
