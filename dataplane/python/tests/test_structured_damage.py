"""Stored specifications and numbers that lie: an error, before memory is taken or overwritten."""

import pytest

np = pytest.importorskip("numpy", reason="structured objects need numpy")
from structured_store import FastStore, PlainStore  # noqa: E402

from mooncake._structured.reader import PayloadReader  # noqa: E402
from mooncake.structured_object_store import (  # noqa: E402
    MooncakeBundleTransfer,
    StructuredObjectPayload,
)

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


LARGE = 1 << 40


def claim(payload, size):
    payload["bytes"] = payload["chunks"][0]["bytes"] = size


def test_a_manifest_alone_takes_no_large_memory():
    store = FastStore()
    store.get_size = lambda key: len(store.values[key])
    transfer = MooncakeBundleTransfer(store)
    payload = StructuredObjectPayload({}, {"raw": b"x", "array": np.arange(2)})
    ref = transfer.put_structured_object(payload)
    for name in ("raw", "array"):
        claim(ref.manifest["buffers"][name], LARGE)
    key = ref.manifest["meta"]["key"]
    store.values[key] = store.values[key].replace(b"[2]", b"[%d]" % (LARGE // 8))
    claim(ref.manifest["meta"], len(store.values[key]))
    spec = transfer.read_spec(ref)
    for name, size in (("raw", 1), ("array", 16)):
        with pytest.raises(RuntimeError, match=f"has {size} bytes"):
            transfer.materialize(spec.select_members([name]))


@pytest.mark.parametrize("kind", STORES)
def test_rows_that_the_bytes_cannot_hold_are_not_listed(kind):
    store = kind()
    transfer = MooncakeBundleTransfer(store)
    ref = transfer.put_structured_object(StructuredObjectPayload({}, {"array": np.arange(2)}))
    key = ref.manifest["meta"]["key"]
    store.values[key] = store.values[key].replace(b"[2]", b"[%d]" % LARGE)
    claim(ref.manifest["meta"], len(store.values[key]))
    spec = transfer.read_spec(ref).slice_member("array", 0, 0, LARGE)
    with pytest.raises(ValueError, match=f"16 bytes are no {LARGE} rows"):
        transfer.materialize(spec)


@pytest.mark.parametrize("kind", STORES)
@pytest.mark.parametrize(
    ("values", "name", "offsets"),
    [
        ([[b"a"], [b"b"]], "row_offsets", [0, 1, LARGE]),
        ([[b"a"], [b"b"]], "byte_offsets", [0, LARGE, 2]),
        ([np.arange(1), np.arange(1)], "offsets", [0, LARGE, 2]),
        ([np.arange(1), np.arange(1)], "offsets", [0, 1, LARGE]),
    ],
)
@pytest.mark.parametrize("dtype", [np.int64, np.uint64])
def test_offsets_beyond_the_data_take_no_memory(kind, values, name, offsets, dtype):
    store = kind()
    transfer = MooncakeBundleTransfer(store)
    ref = transfer.put_dataproto(column(values))
    (key,) = (key for key in store.values if key.endswith(f"f.{name}"))
    store.values[key] = np.array(offsets, dtype).tobytes()
    if dtype == np.uint64:
        old = b'.%s":{"encoding":"ndarray","dtype":"<i8"' % name.encode()
        replace_metadata(store, ref, old, old.replace(b"<i8", b"<u8"))
    for rows in ([0, 1], None):
        with pytest.raises(ValueError, match="do not go from|lie outside"):
            transfer.get_dataproto(ref, rows=rows)
