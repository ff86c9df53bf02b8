"""Tensors in structured objects; torch itself is needed."""

import ctypes

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
np = pytest.importorskip("numpy", reason="structured objects need numpy")
from structured_store import FastStore, PlainStore  # noqa: E402
from test_structured_codecs import rows_of  # noqa: E402

from mooncake._tensor import HEADER_BYTES, TensorCalls, deserialize_tensor  # noqa: E402
from mooncake.structured_object_store import (  # noqa: E402
    BundleTransferPolicy,
    MooncakeBundleTransfer,
    raw_destination,
    tensor_object_buffer,
)


class TensorStore(TensorCalls, FastStore):
    """With tensor objects, as the client has them."""

    def batch_put_from_multi_buffers(self, keys, addresses, sizes, config=None):
        parts = zip(keys, addresses, sizes)
        return [self.put(key, b"".join(map(ctypes.string_at, *it))) for key, *it in parts]

    def batch_get_buffer(self, keys):
        return [bytearray(self.values[key]) if key in self.values else None for key in keys]


GRID = torch.arange(24, dtype=torch.float32).reshape(6, 4)


@pytest.mark.parametrize("kind", [PlainStore, FastStore, TensorStore])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.bool, torch.complex64])
@pytest.mark.parametrize("rows", [None, slice(1, 6, 2), [4, 4, 0], []])
def test_a_tensor_comes_back(kind, dtype, rows):
    transfer = MooncakeBundleTransfer(kind())
    ref = transfer.put_dataproto({"t": GRID.to(dtype)})
    found = transfer.get_dataproto(ref, rows=rows)["batch"]["t"]
    wanted = GRID.to(dtype)[slice(None) if rows is None else rows]
    assert torch.equal(found, wanted) and found.dtype == dtype


@pytest.mark.parametrize("value", [torch.tensor(1.5), torch.empty(2, 0, 3), GRID.t()])
def test_a_tensor_of_any_shape_comes_back(value):
    transfer = MooncakeBundleTransfer(TensorStore())
    assert torch.equal(transfer.get_object(transfer.put_object(value)), value)


def test_header_and_data_of_rows_are_read_into_memory():
    store = TensorStore()
    transfer = MooncakeBundleTransfer(store)
    ref = transfer.put_dataproto({"t": GRID})
    memory = ctypes.create_string_buffer(HEADER_BYTES + 48)
    address = ctypes.addressof(memory)
    into = {"t": raw_destination(address, len(memory.raw), memory)}
    assert transfer.get_dataproto(ref, rows=[5, 0, 2], destinations=into)["batch"]["t"] is into["t"]
    assert torch.equal(deserialize_tensor(memory.raw), GRID[[5, 0, 2]])
    into = {"t": tensor_object_buffer(address, len(memory.raw), memory)}
    with pytest.raises(ValueError, match="are needed"):
        transfer.get_dataproto(ref, destinations=into)


@pytest.mark.parametrize("kind", [PlainStore, FastStore])
@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (b'"element_size":4', b'"element_size":8', "do not fit memory of 16"),
        (b'"element_size":4', b'"element_size":0', "read it whole"),
        (b'"shape":[6,4]', b'"shape":[6,1099511627776]', "lie outside"),
        (b'"shape":[6,4]', b'"shape":[1099511627776,4]', "are no 1099511627776 rows"),
    ],
)
def test_a_specification_that_lies_fills_no_other_memory(kind, old, new, reason):
    store = kind()
    transfer = MooncakeBundleTransfer(store)
    ref = transfer.put_object({"t": GRID})
    meta = ref.manifest["meta"]
    assert old in store.values[meta["key"]]
    store.values[meta["key"]] = store.values[meta["key"]].replace(old, new)
    meta["bytes"] = meta["chunks"][0]["bytes"] = len(store.values[meta["key"]])
    with pytest.raises(ValueError, match=reason):
        transfer.materialize(transfer.read_spec(ref).slice_member("t", 0, 1, 2))


def test_a_zero_copy_put_of_a_tensor_says_what_it_needs():
    transfer = MooncakeBundleTransfer(TensorStore())
    with pytest.raises(ValueError, match="tensor_object_buffer"):
        transfer.put_object(GRID, policy=BundleTransferPolicy(copy_mode="zero_copy"))


COLUMNS = {
    "ragged_tensor": [GRID, None, GRID[0], torch.empty(0)],
    "ragged_tensor bfloat16": [GRID.bfloat16(), None, GRID[0].bfloat16(), GRID[:0].bfloat16()],
    "structured_recursive": [{"t": GRID, "n": 1}, None, {"n": None}, {"t": None}],
}


@pytest.mark.parametrize("rows", [None, [3, 0], slice(1, 3)])
@pytest.mark.parametrize("name", COLUMNS)
def test_rows_of_tensors_come_back(name, rows):
    transfer = MooncakeBundleTransfer(FastStore())
    values = COLUMNS[name]
    ref = transfer.put_dataproto({"batch": {}, "non_tensor_batch": {"f": rows_of(*values)}})
    assert ref.encoded_non_tensor["f"]["codec"] == name.split()[0]
    found = transfer.get_dataproto(ref, rows=rows)["non_tensor_batch"]["f"]
    for left, right in zip(
        found, rows_of(*values)[slice(None) if rows is None else rows], strict=True
    ):
        assert _same(left, right), (left, right)


def _same(left, right):
    if isinstance(right, dict):
        return left.keys() == right.keys() and all(_same(left[it], right[it]) for it in right)
    if isinstance(right, torch.Tensor):
        return torch.equal(left, right) and left.dtype == right.dtype
    return left == right


def test_rows_of_mixed_dtypes_are_refused():
    transfer = MooncakeBundleTransfer(FastStore())
    rows = rows_of(GRID, GRID.long())
    with pytest.raises(ValueError, match="mixed tensor dtype"):
        transfer.put_dataproto({"batch": {}, "non_tensor_batch": {"f": rows}})


@pytest.mark.parametrize("rows", [None, [2, 0], []])
def test_a_jagged_tensor_comes_back(rows):
    parts = [torch.arange(2), torch.arange(4), torch.arange(1)]
    jagged = torch.nested.as_nested_tensor(parts, layout=torch.jagged)
    transfer = MooncakeBundleTransfer(FastStore())
    found = transfer.get_dataproto(transfer.put_dataproto({"t": jagged}), rows=rows)["batch"]["t"]
    wanted = parts if rows is None else [parts[row] for row in rows]
    assert found.layout == torch.jagged and len(found) == len(wanted)
    assert all(map(torch.equal, found.unbind(), wanted))
