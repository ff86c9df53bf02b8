"""Stored batches: stages of fields, rows of them, appended fields, groups, handles, flat dicts."""

import json

import pytest

np = pytest.importorskip("numpy", reason="structured objects need numpy")
from structured_store import Config, FastStore, PlainStore  # noqa: E402

from mooncake.structured_object_store import (  # noqa: E402
    FieldSchema,
    MooncakeBundleTransfer,
    StructuredMemberSlice,
    export_ref,
    import_ref,
)

TOKENS = np.arange(24, dtype=np.int64).reshape(6, 4)
TEXT = np.array(["", "a", None, "b" * 50, "é", "z"], dtype=object)


@pytest.fixture
def store():
    return FastStore()


@pytest.fixture
def transfer(store):
    return MooncakeBundleTransfer(store)


def batch(**sections):
    return {"batch": {}, "non_tensor_batch": {}, "meta_info": {}, **sections}


def whole():
    return batch(batch={"tokens": TOKENS}, non_tensor_batch={"text": TEXT}, meta_info={"step": 1})


ROWS = [None, slice(2, 5), slice(None, None, 3), [4, 1, 1, -1], [], StructuredMemberSlice(0, 1, 3)]


@pytest.mark.parametrize("rows", ROWS)
def test_rows_of_all_fields_come_back(transfer, rows):
    ref = transfer.put_dataproto(whole())
    found = transfer.get_dataproto(ref, rows=rows)
    chosen = slice(1, 3) if isinstance(rows, StructuredMemberSlice) else rows
    chosen = slice(None) if rows is None else chosen
    assert np.array_equal(found["batch"]["tokens"], TOKENS[chosen])
    assert found["non_tensor_batch"]["text"].tolist() == TEXT[chosen].tolist()
    assert found["meta_info"] == {"step": 1}


def test_only_the_chosen_rows_and_fields_travel(transfer, store):
    wide = np.zeros((1000, 64), dtype=np.uint8)
    ref = transfer.put_dataproto(batch(batch={"wide": wide, "other": wide}), chunk_bytes=4096)
    before = store.bytes_read
    transfer.get_dataproto(ref, fields=["wide"], rows=[7, 900])
    meta = ref.stage_refs["default"].manifest["meta"]["bytes"]
    assert store.bytes_read - before == 128 + meta


@pytest.mark.parametrize(
    ("selection", "error"),
    [
        ({"fields": ["none"]}, KeyError),
        ({"fields": [], "batch_fields": []}, ValueError),
        ({"batch_fields": ["text"]}, KeyError),
        ({"rows": [6]}, IndexError),
        ({"rows": ["0"]}, TypeError),
        ({"rows": slice(None, None, -1)}, ValueError),
        ({"meta_info_keys": ["none"]}, KeyError),
        ({"destinations": {"none": TOKENS}}, KeyError),
        ({"destinations": {"text": TOKENS}}, ValueError),
    ],
)
def test_a_selection_that_makes_no_sense_is_refused(transfer, selection, error):
    ref = transfer.put_dataproto(whole())
    with pytest.raises(error):
        transfer.get_dataproto(ref, **selection)


def test_appended_fields_join_a_stage_or_make_one(transfer, store):
    first = transfer.put_dataproto(whole(), stage="rollout")
    scores = np.linspace(0, 1, 6)
    second = transfer.append_dataproto_fields(
        first, batch(batch={"scores": scores}, meta_info={"done": True}), stage="rollout"
    )
    third = transfer.append_dataproto_fields(second, batch(batch={"value": scores}), stage="critic")
    assert set(transfer.get_dataproto(first)["batch"]) == {"tokens"}
    found = transfer.get_dataproto(third, rows=[5, 0])
    assert np.array_equal(found["batch"]["tokens"], TOKENS[[5, 0]])
    assert found["batch"]["scores"].tolist() == found["batch"]["value"].tolist() == [1, 0]
    assert found["meta_info"] == {"step": 1, "done": True}
    assert set(third.stage_refs) == {"rollout", "critic"}
    transfer.cleanup_dataproto(third)
    assert store.values == {}


def test_an_append_that_does_not_fit_changes_nothing(transfer, store):
    ref = transfer.put_dataproto(whole(), stage="rollout")
    before = dict(store.values)
    for data, reason in (
        (batch(batch={"tokens": TOKENS}), "already exist"),
        (batch(batch={"short": TOKENS[:3]}), "batch size"),
        (batch(batch={"a": TOKENS}, non_tensor_batch={"a": TEXT}), "overlap"),
        (batch(batch={"a": TOKENS, "b": TOKENS[:2]}), "inconsistent"),
    ):
        with pytest.raises(ValueError, match=reason):
            transfer.append_dataproto_fields(ref, data, stage="rollout")
    with pytest.raises(ValueError, match="must include existing fields"):
        transfer.append_dataproto_fields(
            ref, batch(batch={"tokens": TOKENS}), stage="rollout", overwrite=True
        )
    assert store.values == before


@pytest.mark.parametrize("kind", [PlainStore, FastStore])
def test_an_overwrite_that_cannot_remove_the_old_leaves_nothing_new(kind):
    store = kind()
    transfer = MooncakeBundleTransfer(store)
    ref = transfer.put_dataproto(batch(batch={"tokens": TOKENS}), stage="rollout")
    stuck, remove, before = ref.stage_refs["rollout"].manifest_key, store.remove, set(store.values)
    data = batch(batch={"tokens": TOKENS + 1})
    store.remove = lambda key, force=False: -900 if key == stuck else remove(key, force)
    with pytest.raises(RuntimeError, match="could not be removed"):
        transfer.append_dataproto_fields(ref, data, stage="rollout", overwrite=True)
    assert set(store.values) <= before
    store.remove = remove
    new = transfer.append_dataproto_fields(ref, data, stage="rollout", overwrite=True)
    assert np.array_equal(transfer.get_dataproto(new)["batch"]["tokens"], TOKENS + 1)
    transfer.cleanup_dataproto(new)
    assert store.values == {}


@pytest.mark.parametrize("nth", range(1, 9))
def test_an_append_that_fails_leaves_the_batch_as_it_was(nth):
    store = PlainStore()
    transfer = MooncakeBundleTransfer(store)
    ref = transfer.put_dataproto(whole(), stage="rollout")
    before, store.fail_at = dict(store.values), store.puts + nth
    try:
        transfer.append_dataproto_fields(
            ref, batch(batch={"value": TOKENS}), stage="rollout", chunk_bytes=1000
        )
    except RuntimeError:
        assert store.values == before
    else:
        assert nth > 5


def test_overwriting_a_stage_takes_the_old_one_away(transfer, store):
    ref = transfer.put_dataproto(whole(), stage="rollout")
    old = set(store.values)
    data = batch(batch={"tokens": TOKENS + 1, "text": TOKENS})
    new = transfer.append_dataproto_fields(ref, data, stage="rollout", overwrite=True)
    assert not old & set(store.values) and new.encoded_non_tensor == {}
    assert np.array_equal(transfer.get_dataproto(new)["batch"]["tokens"], TOKENS + 1)


def test_a_handle_is_json_and_reads_the_same(transfer):
    ref = transfer.put_dataproto(whole(), namespace="n", partition="p", stage="s")
    handle = json.loads(json.dumps(export_ref(ref)))
    found = transfer.get_dataproto(handle)
    assert found["non_tensor_batch"]["text"].tolist() == TEXT.tolist()
    assert import_ref(handle)._storage_group_id == ref._storage_group_id
    view = transfer.dataproto_manifest_view(handle)
    assert view["namespace"] == "n" and view["stages"]["s"]["dataproto"]["batch_size"] == 6
    assert view["batch_fields"]["tokens"]["spec"]["shape"] == [6, 4]
    assert view["non_tensor_fields"]["text"]["spec"]["codec"] == "utf8_ragged"


@pytest.mark.parametrize(
    "change",
    [
        {"type": "other"},
        {"version": 3},
        {"version": 2, "storage_group_id": None},
        {"kind": "x"},
        {"batch_size": -1},
        {"stage_refs": {"s": {"manifest_key": ""}}},
        {"field_index": {"tokens": {"stage": "x", "member": "m", "section": "batch"}}},
        {"field_index": {"tokens": {"stage": "default", "member": "m", "section": "x"}}},
        {"field_index": {"tokens": None}},
        {"global_indexes": "0"},
        {"storage_group_id": ""},
    ],
)
def test_a_damaged_handle_is_refused(transfer, change):
    handle = export_ref(transfer.put_dataproto(whole()))
    with pytest.raises(ValueError):
        import_ref({**handle, **change})


def test_one_batch_is_one_group_through_all_its_stages():
    store = PlainStore()
    transfer = MooncakeBundleTransfer(store)
    ref = transfer.put_dataproto(whole(), config=Config(["mine"]))
    transfer.append_dataproto_fields(export_ref(ref), batch(batch={"v": TOKENS}), stage="other")
    assert {tuple(it.group_ids) for it in store.configs} == {("mine",)}
    with pytest.raises(ValueError, match="conflicts"):
        transfer.append_dataproto_fields(
            ref, batch(batch={"w": TOKENS}), stage="x", config=Config("other")
        )
    store.configs.clear()
    alone = transfer.put_dataproto(whole(), config=Config([""]))
    assert alone._storage_group_id is None


def test_a_flat_dict_comes_back_flat(transfer):
    data = {"tokens": TOKENS, "text": TEXT.tolist(), "step": 3, "names": ["x", "y"]}
    found = transfer.get(transfer.put(data, type="dict"), type="dict")
    assert np.array_equal(found.pop("tokens"), TOKENS)
    assert found == {"text": TEXT.tolist(), "step": 3, "names": ["x", "y"]}


def test_a_schema_says_where_a_field_of_a_flat_dict_goes(transfer):
    schemas = {
        "rows": FieldSchema("ndarray", metadata={"section": "non_tensor_batch", "dtype": "int32"}),
        "sizes": FieldSchema("auto", metadata={"section": "meta_info"}),
    }
    data = {"rows": [1, 2], "sizes": [7, 8], "loose": [5, 6]}
    ref = transfer.put(data, type="dict", field_schemas=schemas)
    assert ref.batch_size == 2 and ref.meta_info == {"sizes": [7, 8], "loose": [5, 6]}
    assert transfer.get(ref, type="dict") == data
    with pytest.raises(ValueError, match="ambiguous"):
        transfer.put({"a": TOKENS, "b": TOKENS[:2]}, type="dict")
    with pytest.raises(ValueError, match="section"):
        transfer.put(
            data,
            type="dict",
            field_schemas={"rows": FieldSchema("auto", metadata={"section": "x"})},
        )


def test_a_class_of_the_caller_is_built(transfer):
    class Proto:
        def __init__(self, batch=None, non_tensor_batch=None, meta_info=None):
            self.batch, self.non_tensor_batch, self.meta_info = batch, non_tensor_batch, meta_info

    ref = transfer.put_dataproto(Proto({"tokens": TOKENS}, None, {"a": 1}))
    found = transfer.get_dataproto(ref, data_cls=Proto)
    assert np.array_equal(found.batch["tokens"], TOKENS) and found.meta_info == {"a": 1}
    with pytest.raises(TypeError, match="cannot be constructed"):
        transfer.get_dataproto(ref, data_cls=object)
    with pytest.raises(TypeError, match="is no batch"):
        transfer.put_dataproto(7)
