"""The REST service does all of what a request says, or refuses it: tenants, unknown words, no JSON."""

import json

import pytest

pytest.importorskip("aiohttp", reason="the service needs aiohttp")

from fake_store import FakeStore
from rest_service import ask, ask_one, make_service

SHM = {"name": "seg", "size": 4096, "offset": 0, "protocol": "tcp", "location": ""}
DECODE = {"mode": "decode", "path": "/dev/shm/x"} | {
    field: value for field, value in SHM.items() if field != "name"
}
# Each route with a request that means something.
ROUTES = [
    ("PUT", "/api/put", {"key": "new", "value": "v"}),
    ("GET", "/api/get/kept", None),
    ("GET", "/api/exist/kept", None),
    ("DELETE", "/api/remove/kept", None),
    ("DELETE", "/api/remove_all", None),
    ("POST", "/api/mount_shm", SHM),
    ("POST", "/api/unmount_shm", {"segment_ids": ["0" * 32], "grace_period_seconds": 0}),
    ("POST", "/api/mount", {"size": 4096, "protocol": "tcp", "location": ""}),
    ("POST", "/api/unmount", {"segment_ids": ["0" * 32], "grace_period_seconds": 0}),
    ("POST", "/api/unmount_local_disk", {"grace_period_seconds": 0}),
    ("POST", "/api/reconfigure", DECODE),
]
NAMES = [path for _, path, _ in ROUTES]


def store_of_red():
    store = FakeStore()
    store.put("kept", b"red's")
    if not store.segments:
        store.mount_segment("/dev/shm/other", 1)
    return store


def all_ways(route, words):
    """Return the route's request with words in the query, and with them in the body."""
    method, path, body = route
    query = "&".join(f"{name}={value}" for name, value in words.items())
    return [(method, f"{path}?{query}", body), (method, path, (body or {}) | words)]


def needs_body(route):
    """Say whether a route means nothing without a body."""
    return route[2] is not None and route[1] != "/api/unmount_local_disk"


def test_each_route_of_the_service_is_tried_here():
    service = make_service()
    tables = (*service._objects.table(), *service._segments.table())
    paths = [(method, path.partition("/{")[0]) for method, path, _, _ in tables]
    assert sorted(paths) == sorted((method, path.removesuffix("/kept")) for method, path, _ in ROUTES)


@pytest.mark.parametrize("route", ROUTES, ids=NAMES)
def test_another_tenant_is_refused_and_nothing_is_done(route):
    store = store_of_red()
    before = (dict(store.values), dict(store.segments))
    for status, answer in ask(all_ways(route, {"tenant_id": "blue"}), store, tenant_id="red"):
        assert status == 403
        assert "tenant 'red' alone" in json.loads(answer)["error"] and "'blue'" in answer.decode()
    assert (store.values, store.segments) == before


@pytest.mark.parametrize("route", ROUTES, ids=NAMES)
@pytest.mark.parametrize(("settings", "own"), [({"tenant_id": "red"}, "red"), ({}, "default")])
def test_the_tenant_of_the_service_may_be_named(route, settings, own):
    for request in [route, *all_ways(route, {"tenant_id": own})]:
        ((status, _),) = ask([request], store_of_red(), **settings)
        assert status == 200, request


@pytest.mark.parametrize("route", ROUTES, ids=NAMES)
@pytest.mark.parametrize("word", ["force", "regex", "TENANT_ID", ""])
def test_a_word_that_a_route_does_not_know_is_named_beside_those_that_it_knows(route, word):
    store = store_of_red()
    before = (dict(store.values), dict(store.segments))
    known = [*(route[2] or {}), "tenant_id"]
    in_query, in_body = ask(all_ways(route, {word: "true"}), store)
    assert (in_query[0], in_body[0]) == (400, 400)
    assert f"does not know {word!r} in the query: it takes tenant_id" in in_query[1].decode()
    said = json.loads(in_body[1])["error"]
    assert f"does not know {word!r} in the body" in said
    assert set(known) <= set(said.partition("it takes ")[2].split(", "))
    assert (store.values, store.segments) == before


def test_a_tenant_without_a_name_is_refused():
    for value in ("", None, 3, ["default"]):
        body = {"key": "k", "value": "v", "tenant_id": value}
        status, answer = ask_one("PUT", "/api/put", body)
        assert status == 400 and "tenant_id must be the name of a tenant" in answer["error"]
    assert ask_one("DELETE", "/api/remove_all?tenant_id=")[0] == 400
    assert ask_one("DELETE", "/api/remove_all?tenant_id=default&tenant_id=blue")[0] == 403


def test_the_rest_of_a_key_behind_a_question_mark_is_no_parameter_in_silence():
    store = FakeStore()
    store.put("a", b"another's")
    store.put("a?b", b"mine")
    assert ask_one("GET", "/api/get/a?b", store=store)[0] == 400
    ((status, value),) = ask([("GET", "/api/get/a%3Fb", None)], store)
    assert (status, value) == (200, b"mine")


@pytest.mark.parametrize(
    "body", ["nope", "", "{", b"\xff\xfe", "1" * 5000, "[" * 100_000, "\x00"],
    ids=["word", "empty", "half", "no UTF-8", "long number", "deep", "zero"],
)
@pytest.mark.parametrize("route", ROUTES, ids=NAMES)
def test_a_body_that_is_no_json_is_the_callers_fault(route, body):
    method, path, _ = route
    ((status, answer),) = ask([(method, path, body)], store_of_red())
    if not body and not needs_body(route):
        assert status == 200
    else:
        assert status == 400 and b"The body must be a JSON object" in answer


def test_half_a_character_is_the_callers_fault():
    status, answer = ask_one("PUT", "/api/put", '{"key": "k", "value": "\\ud800"}')
    assert status == 400 and "text that UTF-8 can hold" in answer["error"]
    status, answer = ask_one("PUT", "/api/put", '{"key": "\\ud800", "value": "v"}')
    assert status == 400 and "text that UTF-8 can hold" in answer["error"]


def test_a_mode_may_be_written_in_capitals_as_mooncake_takes_it():
    status, answer = ask_one("POST", "/api/reconfigure", {"mode": "Prefill"})
    assert (status, answer["mode"]) == (200, "prefill")
    status, answer = ask_one("POST", "/api/reconfigure", {"mode": 3})
    assert status == 400 and "mode" in answer["error"]
