"""Codecs of rows: each value comes back, whole and by rows, and damage is an error."""

import pytest

np = pytest.importorskip("numpy", reason="structured objects need numpy")
pytest.importorskip("msgpack", reason="rows of dicts need msgpack")
from structured_store import FastStore  # noqa: E402

from mooncake.structured_object_store import (  # noqa: E402
    FieldSchema,
    MooncakeBundleTransfer,
    infer_structure,
)


def rows_of(*values):
    array = np.empty(len(values), dtype=object)
    for row, value in enumerate(values):
        array[row] = value
    return array


def same(left, right):
    if isinstance(left, np.ndarray):
        return (
            isinstance(right, np.ndarray)
            and np.array_equal(left, right)
            and left.dtype == right.dtype
        )
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(left[it], right[it]) for it in left)
    if isinstance(left, list):
        return len(left) == len(right) and all(map(same, left, right))
    return left == right and type(left) is type(right)


I32 = np.int32
COLUMNS = {
    "utf8_ragged": ["a", None, "", "é"],
    "bytes_ragged": [b"a", None, b"", b"xyz"],
    "ndarray": [1, None, 3, -4],
    "typed_ragged": [np.arange(3, dtype=I32), None, np.zeros((2, 2), I32), np.array(7, I32)],
    "media_list_ragged": [[b"a", b"bc"], None, [], [b"d"]],
    "msgpack_ragged": [{"a": 1}, None, {"b": [2, "x"]}, {}],
    "structured_recursive": [
        {"a": np.arange(2), "b": {"c": [b"1"], "d": None}, "l": [{"m": b"x"}, None]},
        None,
        {"b": None},
        {"a": None, "b": {"d": 1}, "l": []},
    ],
}
LISTS = {"typed_ragged": [[1, 2], None, [], [3]], "msgpack_ragged": [[True], None, ["x"], [[1], 2]]}


@pytest.mark.parametrize("rows", [None, slice(1, 3), [3, 0, 3], []])
@pytest.mark.parametrize(("codec", "values"), [*COLUMNS.items(), *LISTS.items()])
def test_rows_come_back_as_they_were(codec, values, rows):
    transfer = MooncakeBundleTransfer(FastStore(), default_chunk_bytes=3)
    ref = transfer.put_dataproto({"batch": {}, "non_tensor_batch": {"f": rows_of(*values)}})
    assert ref.encoded_non_tensor["f"]["codec"] == codec
    found = transfer.get_dataproto(ref, rows=rows)["non_tensor_batch"]["f"]
    wanted = rows_of(*values)[slice(None) if rows is None else rows]
    assert same(list(found), list(wanted))


def put(values, codec="auto", **metadata):
    nullable = metadata.pop("nullable", True)
    transfer = MooncakeBundleTransfer(FastStore())
    schema = FieldSchema(codec, nullable, metadata)
    data = {"batch": {}, "non_tensor_batch": {"f": rows_of(*values)}}
    ref = transfer.put_dataproto(data, field_schemas={"f": schema})
    return list(transfer.get_dataproto(ref)["non_tensor_batch"]["f"])


@pytest.mark.parametrize("codec", ["json_ragged", "msgpack_ragged"])
def test_a_schema_chooses_the_codec(codec):
    assert put([{"a": [1]}, None, "x", 2.5], codec) == [{"a": [1]}, None, "x", 2.5]


def test_numbers_that_a_type_cannot_hold_are_refused():
    assert put([1, 2], "ndarray", dtype="int8") == [1, 2]
    for values, codec in (([300], "ndarray"), ([[300]], "typed_ragged")):
        with pytest.raises(ValueError, match="do not fit int8"):
            put(values, codec, dtype="int8")
    # A float64 would change it.
    assert put([[2**53 + 1], [0.5]]) == [[2**53 + 1], [0.5]]


CHANGING = [
    [2**63 + 5, -1],
    [2**53 + 1, 0.5],
    [np.int64(2**53 + 1), 0.5],
    [True, 1],
    [False, 0.5],
    [0.1, 7, float("inf")],
]


@pytest.mark.parametrize("numbers", CHANGING)
@pytest.mark.parametrize("nested", [False, True])
def test_mixed_numbers_keep_their_values_and_types(numbers, nested):
    found = put([numbers, None] if nested else [*numbers, None])
    found = found[0] if nested else found[:-1]
    assert found == numbers
    assert [isinstance(it, bool) for it in found] == [isinstance(it, bool) for it in numbers]


def test_a_nan_is_a_number():
    (found,) = put([[float("nan"), 1]])
    assert np.isnan(found[0]) and found[1] == 1


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize(
    ("numbers", "dtype"),
    [([1e300], "float32"), ([1j], "float64"), ([2**63 - 1], "float64"), ([float("nan")], "int64")],
)
def test_a_type_that_would_lose_more_than_digits_is_refused(numbers, dtype, nested):
    rows, codec = ([numbers], "typed_ragged") if nested else (numbers, "ndarray")
    with pytest.raises(ValueError, match=f"do not fit {dtype}"):
        put(rows, codec, dtype=dtype)
    infinite = [float("inf"), 0.1]
    assert put(infinite, "ndarray", dtype="float32") == [float("inf"), np.float32(0.1)]


def test_arrays_of_bools_are_not_counted_as_numbers():
    with pytest.raises(ValueError, match="bools"):
        put([np.array([True]), np.array([2])], "typed_ragged")


def test_numpy_scalars_and_tuples_inside_rows_become_plain():
    assert put([{"a": np.int64(3), "b": (1, 2)}]) == [{"a": 3, "b": [1, 2]}]


@pytest.mark.parametrize(
    ("values", "codec", "reason"),
    [
        ([object()], "auto", "unsupported"),
        ([object()], "utf8_ragged", "'f' with utf8_ragged"),
        (["a"], "none", "unknown codec"),
        ([[None]], "typed_ragged", "dtype|numbers|objects"),
        ([{"a.data": 1}], "ragged_tensor_dict", "must not contain"),
        ([{"a/b": 1}], "ragged_tensor_dict", "must not contain"),
        ([1], "ragged_tensor_dict", "not a dict"),
    ],
)
def test_rows_that_no_codec_holds_are_refused(values, codec, reason):
    with pytest.raises((ValueError, TypeError, AttributeError), match=reason):
        put(values, codec)


def test_a_field_that_is_not_nullable_has_no_none():
    with pytest.raises(ValueError, match="not nullable"):
        put(["a", None], "auto", nullable=False)


def test_columns_that_do_not_fit_each_other_are_refused():
    from mooncake._structured import codecs

    for codec, values in COLUMNS.items():
        if codec in ("structured_recursive", "ndarray"):
            continue
        members, metadata = codecs.codec_of(codec).encode(values, {})
        for name in ("offsets", "row_offsets", "byte_offsets", "nulls"):
            if name in members:
                cut = {**members, name: members[name][:-1]}
                cut["data"] = b"".join(members["data"].buffers)
                with pytest.raises(ValueError, match="fit|go from"):
                    codecs.codec_of(codec).decode(cut, len(values), metadata)


def test_nesting_has_an_end():
    deep = 1
    for _ in range(40):
        deep = {"a": deep}
    with pytest.raises(ValueError, match="deeper"):
        infer_structure("r", [deep], [], [])


def test_images_come_back():
    image = pytest.importorskip("PIL.Image", reason="images need pillow")
    picture = image.frombytes("RGB", (2, 1), b"abcdef")
    found = put([picture, None])
    assert found[0].tobytes() == b"abcdef" and found[0].size == (2, 1) and found[1] is None
    with pytest.raises(ValueError, match="palette"):
        put([image.new("P", (1, 1))], "media_bytes")
