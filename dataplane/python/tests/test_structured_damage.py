"""Stored specifications and numbers that lie: an error, before memory is taken or overwritten."""

import pytest

np = pytest.importorskip("numpy", reason="structured objects need numpy")
from structured_store import FastStore, PlainStore  # noqa: E402

from mooncake._structured.reader import PayloadReader  # noqa: E402
from mooncake.structured_object_store import MooncakeBundleTransfer  # noqa: E402

STORES = [PlainStore, FastStore]


def column(values):
    rows = np.empty(len(values), dtype=object)
    rows[:] = values
    return {"batch": {}, "non_tensor_batch": {"f": rows}}


def replace_metadata(store, ref, old, new):
    """Change the stored specifications, in as many bytes."""
    key = ref.stage_refs["default"].manifest["meta"]["key"]
    assert len(old) == len(new) and old in store.values[key]
    store.values[key] = store.values[key].replace(old, new)


@pytest.mark.parametrize("kind", STORES)
@pytest.mark.parametrize("rows", [None, [1]])
def test_stored_bytes_never_become_references_to_python_objects(kind, rows):
    store = kind()
    transfer = MooncakeBundleTransfer(store)
    ref = transfer.put_dataproto(column([np.arange(2), np.arange(3)]))
    replace_metadata(store, ref, b'"dtype":"<i8","shape":[5]', b'"dtype":"|O", "shape":[5]')
    with pytest.raises(ValueError, match="Python objects"):
        transfer.get_dataproto(ref, rows=rows)


def test_a_reader_makes_no_array_of_python_objects():
    payload = {"key": "k", "bytes": 8, "chunks": [{"key": "k", "bytes": 8}]}
    with pytest.raises(ValueError, match="Python objects"):
        PayloadReader(FastStore()).read_array(payload, np.dtype("O,i4"), (1,), [(0, 12)])


@pytest.mark.parametrize("kind", STORES)
@pytest.mark.parametrize("size", [7, 9])
def test_a_read_fills_its_memory_and_nothing_beside_it(kind, size):
    store = kind()
    store.put("k", bytes(8))
    payload = {"key": "k", "bytes": 8, "chunks": [{"key": "k", "bytes": 8}]}
    memory = np.full(16, 7, np.uint8)
    with pytest.raises(ValueError, match=f"do not fit memory of {size}"):
        PayloadReader(store).read_into(payload, [(0, 4), (4, 4)], memory.ctypes.data, size)
    assert set(memory) == {7}
