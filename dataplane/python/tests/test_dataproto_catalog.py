"""The catalog of stored batches."""

import pytest

pytest.importorskip("numpy", reason="structured objects need numpy")
from mooncake.dataproto_catalog import DataProtoCatalog  # noqa: E402


def handle(name, fields, rows=2):
    location = {"stage": "s", "section": "batch"}
    return {
        "type": "mooncake_dataproto_ref",
        "version": 1,
        "kind": "bundle_stages",
        "batch_size": rows,
        "stage_refs": {"s": {"manifest_key": name}},
        "field_index": {field: {**location, "member": f"batch.{field}"} for field in fields},
    }


@pytest.fixture
def catalog():
    return DataProtoCatalog()


def test_fields_of_several_batches_are_found_in_the_order_of_the_keys(catalog):
    catalog.update("p", ["a", "b"], handle=handle("one", ["x", "y"]))
    answer = catalog.update("p", ["b", "a"], tags=[{"n": 1}, {}], handle=handle("two", ["z"]))
    assert answer == {"keys": ["b", "a"], "tags": [{"n": 1}, {}], "fields": ["x", "y", "z"]}
    plan = catalog.resolve("p", ["a", "b"])
    assert plan["field_groups"] == [
        {"fields": ["x", "y"], "locations": [("one", 0), ("one", 1)]},
        {"fields": ["z"], "locations": [("two", 1), ("two", 0)]},
    ]
    assert set(plan["handles"]) == {"one", "two"} and plan["tags"] == [{}, {"n": 1}]
    assert set(catalog.resolve("p", ["a"], ["z"])["handles"]) == {"two"}


def test_a_batch_is_forgotten_with_its_last_field(catalog):
    catalog.update("p", ["a", "b"], handle=handle("one", ["x"]))
    catalog.update("p", ["a"], handle=handle("two", ["x"], 1))
    assert set(catalog._handles) == {"one", "two"}
    catalog.update("p", ["b"], handle=handle("three", ["x"], 1))
    assert set(catalog._handles) == {"two", "three"}
    catalog.remove("p", ["a", "b", "never"])
    assert catalog._handles == {} and catalog._uses == {} and catalog.list() == {}


def test_what_is_returned_is_a_copy(catalog):
    tags = [{"n": []}]
    catalog.update("p", ["a"], tags=tags)
    tags[0]["n"].append(1)
    catalog.list()["p"]["a"]["n"].append(2)
    assert catalog.list("p") == {"p": {"a": {"n": []}}} and catalog.list("other") == {}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({}, "needs tags or a handle"),
        ({"tags": [{}]}, "same length"),
        ({"tags": [{}, 1]}, "mapping"),
        ({"keys": "ab", "tags": [{}, {}]}, "sequence"),
        ({"keys": [], "tags": []}, "at least one"),
        ({"keys": ["a", "a"], "tags": [{}, {}]}, "twice"),
        ({"partition": "", "tags": [{}, {}]}, "partition"),
        ({"handle": handle("one", ["x"], 3)}, "3 rows"),
        ({"handle": handle("one", [])}, "at least one"),
        ({"handle": {**handle("one", ["x"]), "version": 9}}, "version"),
        (
            {
                "handle": {
                    **handle("one", ["x"]),
                    "stage_refs": {"s": {"manifest_key": "a"}, "t": {"manifest_key": "b"}},
                }
            },
            "one stage",
        ),
    ],
)
def test_a_wrong_update_changes_nothing(catalog, change, reason):
    arguments = {"partition": "p", "keys": ["a", "b"], **change}
    with pytest.raises(ValueError, match=reason):
        catalog.update(arguments.pop("partition"), arguments.pop("keys"), **arguments)
    assert catalog.list() == {} and catalog._handles == {}


def test_two_batches_cannot_have_one_manifest(catalog):
    catalog.update("p", ["a", "b"], handle=handle("one", ["x"]))
    with pytest.raises(ValueError, match="another batch"):
        catalog.update("p", ["a", "b"], handle=handle("one", ["y"]))


def test_rows_and_fields_that_are_not_there_are_named(catalog):
    catalog.update("p", ["a"], tags=[{}])
    catalog.update("p", ["b"], handle=handle("one", ["x"], 1))
    for keys, fields, reason in (
        (["c"], None, r"\['c'\] were not found"),
        (["a"], None, "do not contain any fields"),
        (["a", "b"], ["x"], r"not ready for keys \['a'\]"),
        (["b"], "x", "sequence"),
    ):
        with pytest.raises(ValueError, match=reason):
            catalog.resolve("p", keys, fields)
