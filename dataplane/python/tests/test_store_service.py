"""The REST service: arguments, configuration, set-up retries and every route."""

import asyncio
import json
import signal

import pytest

pytest.importorskip("aiohttp", reason="the service needs aiohttp")

from aiohttp.test_utils import TestClient, TestServer
from fake_store import FakeStore
from rest_service import CONFIG, ask, ask_one, make_service

from mooncake import mooncake_store_service as service_module
from mooncake._store_service import stop_drain
from mooncake.mooncake_config import MooncakeConfig
from mooncake.mooncake_store_service import MooncakeStoreService, load_config, parse_arguments

def test_arguments_have_the_documented_defaults():
    options = parse_arguments([])
    assert (options.config, options.define, options.port, options.max_wait_time) == (
        None, [], 8080, 60,
    )


def test_sigterm_drains_within_the_grace_of_a_pod_unless_the_command_line_says_otherwise():
    def drain(arguments, number):
        return service_module.drain_of(parse_arguments(arguments), number)

    usual = drain([], signal.SIGTERM)
    assert (usual.seconds, usual.is_asked) == (20, False)
    assert drain([], signal.SIGINT) is None
    assert drain(["--drain-on-stop=0"], signal.SIGTERM) is None
    asked = drain(["--drain-on-stop=7"], signal.SIGINT)
    assert (asked.seconds, asked.is_asked) == (7, True)


def test_a_stop_drains_for_seconds():
    assert parse_arguments([]).drain_on_stop is None
    options = parse_arguments(["--drain_on_stop=60s", "--master-metrics-port=8"])
    assert (options.drain_on_stop, options.master_metrics_port) == (60, 8)
    with pytest.raises(SystemExit):
        parse_arguments(["--drain-on-stop=-1"])


def test_it_listens_at_the_given_address():
    assert parse_arguments([]).host == "0.0.0.0"
    assert parse_arguments(["--host=127.0.0.1"]).host == "127.0.0.1"


def test_large_bodies_have_one_budget_and_small_ones_are_served_beside_them():
    async def run():
        service = make_service()
        service.bodies = service_module.BodyBudget(max_bytes=300_000)
        large = json.dumps({"key": "k", "value": "v" * 200_000})
        small = json.dumps({"key": "s", "value": "v"})
        async with TestClient(TestServer(service.application())) as client:

            async def unfinished():
                yield large[:-1].encode()
                await asyncio.sleep(3600)

            held = {"Content-Length": str(len(large))}
            slow = asyncio.create_task(client.put("/api/put", data=unfinished(), headers=held))
            while service.bodies.used_bytes == 0:
                await asyncio.sleep(0.01)
            refused = await client.put("/api/put", data=large)
            served = await client.put("/api/put", data=small)
            slow.cancel()
            return refused.status, served.status

    assert asyncio.run(run()) == (503, 200)


def test_arguments_are_read():
    options = parse_arguments(
        ["--config", "f", "-Dprotocol=tcp", "--define", "a=b", "--port=81", "--max-wait-time", "2"]
    )
    assert options.config == "f" and options.define == ["protocol=tcp", "a=b"]
    assert options.port == 81 and options.max_wait_time == 2


@pytest.mark.parametrize("arguments", [["--port", "0"], ["--port", "70000"], ["--what"]])
def test_wrong_arguments_end_with_status_2(arguments, capsys):
    with pytest.raises(SystemExit) as ended:
        parse_arguments(arguments)
    assert ended.value.code == 2 and arguments[0] in capsys.readouterr().err


def test_definitions_override_the_file(tmp_path):
    path = tmp_path / "c.json"
    path.write_text(json.dumps(CONFIG))
    config = load_config(str(path), ["global_segment_size=1gb", "local_hostname=other"])
    assert config.global_segment_size == 1 << 30 and config.local_hostname == "other"


def test_definitions_alone_are_enough(monkeypatch):
    monkeypatch.delenv("MOONCAKE_CONFIG_PATH", raising=False)
    monkeypatch.delenv("MOONCAKE_MASTER", raising=False)
    config = load_config(None, [f"{key}={value}" for key, value in CONFIG.items()])
    assert config.global_segment_size == 16 << 20


@pytest.mark.parametrize("define", ["nothing", "no_such_field=1", "=1"])
def test_wrong_definitions_are_named(define):
    with pytest.raises(ValueError, match=define):
        load_config(None, [define])


def test_setup_is_called_with_the_native_names():
    store = FakeStore()
    assert asyncio.run(make_service(store).start_store(1))
    (arguments,) = store.setups
    assert arguments["master_server_addr"] == "127.0.0.1:50051"
    assert arguments["global_segment_size"] == 16 << 20 and arguments["rdma_devices"] == ""


def test_a_service_is_made_of_a_file_or_the_environment_as_mooncakes(monkeypatch, tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(CONFIG | {"tenant_id": "of-file"}))
    assert MooncakeStoreService(str(path)).config.tenant_id == "of-file"
    service = MooncakeStoreService(path, {"tenant_id": "of-caller"})
    assert service.config.tenant_id == "of-caller"
    assert service.config.global_segment_size == 16 << 20
    with pytest.raises(OSError):
        MooncakeStoreService(str(tmp_path / "none.json"))
    monkeypatch.delenv("MOONCAKE_CONFIG_PATH", raising=False)
    monkeypatch.setenv("MOONCAKE_MASTER", "10.0.0.1:50051")
    assert MooncakeStoreService().config.master_server_address == "10.0.0.1:50051"


def test_mooncakes_names_start_the_service_and_an_event_ends_the_start(monkeypatch):
    monkeypatch.setattr(service_module, "SETUP_RETRY_S", 0.001)

    async def run():
        store = FakeStore()
        service = make_service(store)
        service.host = "127.0.0.1"
        assert await service.start_store_service(1)
        assert await service.start_http_service(0)
        await service.stop()
        assert store.closed
        waiting = make_service(FakeStore(setup_codes=[-900] * 100_000))
        event = asyncio.Event()
        starting = asyncio.create_task(waiting.start_store_service(60, event))
        await asyncio.sleep(0)
        event.set()
        assert not await starting
        assert await make_service().start_store_service(1, asyncio.Event())

    asyncio.run(run())


def test_setup_is_tried_again_until_it_works(monkeypatch):
    monkeypatch.setattr(service_module, "SETUP_RETRY_S", 0.001)
    store = FakeStore(setup_codes=[-900, -900, 0])
    assert asyncio.run(make_service(store).start_store(60))
    assert len(store.setups) == 3


def test_setup_is_given_up_after_the_wait():
    store = FakeStore(setup_codes=[-900])
    assert not asyncio.run(make_service(store).start_store(0))
    assert len(store.setups) == 1


def test_stop_closes_the_store():
    store = FakeStore()
    asyncio.run(make_service(store).stop())
    assert store.closed


class Drain:
    """Counts its runs, and fails if it has an error."""

    def __init__(self, error=None):
        self.error, self.runs = error, 0

    async def run(self, master, store):
        self.runs += 1
        if self.error is not None:
            raise self.error


def run_and_stop(drain, requests=(), **config):
    store = FakeStore()

    async def run():
        settings = MooncakeConfig.from_mapping(CONFIG | config)
        service = MooncakeStoreService(
            settings, store=store, host="127.0.0.1", port=0, drain=drain
        )
        await service.start_store(1)
        await service.start_http()
        async with TestClient(TestServer(service.application())) as client:
            for path, body in requests:
                assert (await client.post(path, json=body)).status == 200
        await service.stop()

    try:
        asyncio.run(run())
    finally:
        assert store.closed


def test_a_stop_closes_the_store_even_if_the_drain_fails():
    with pytest.raises(ValueError, match="planned"):
        run_and_stop(Drain(ValueError("planned")))


def test_a_stop_without_the_program_of_the_drain_says_so(monkeypatch, caplog):
    monkeypatch.setattr(stop_drain, "program_path", lambda: "/none/perigee")
    run_and_stop(stop_drain.StopDrain(1.0, 1))
    assert "Objects are dropped with this store: perigee drain: " in caplog.text
    assert "/none/perigee" in caplog.text


@pytest.mark.parametrize(
    ("size", "requests", "runs"),
    [
        ("16mb", [], 1),
        (0, [], 0),
        (0, [("/api/mount", {"size": 1})], 1),
        (0, [("/api/mount_shm", {"name": "x", "size": 1})], 1),
    ],
)
def test_only_a_stop_of_what_lends_memory_drains(size, requests, runs):
    drain = Drain()
    run_and_stop(drain, requests, global_segment_size=size)
    assert drain.runs == runs


def test_text_goes_in_and_bytes_come_out():
    put, again, get, exist = ask(
        [
            ("PUT", "/api/put", {"key": "s1", "value": "hello"}),
            ("PUT", "/api/put", {"key": "s1", "value": "other"}),
            ("GET", "/api/get/s1", None),
            ("GET", "/api/exist/s1", None),
        ]
    )
    assert (put[0], json.loads(put[1])) == (200, {"status": "success"})
    assert again[0] == 200
    assert get == (200, b"hello")
    assert json.loads(exist[1]) == {"exists": True}


def test_get_is_binary_safe_and_keys_may_have_slashes():
    store = FakeStore()
    store.values["a/b c"] = bytes(range(256))
    assert ask([("GET", "/api/get/a/b%20c", None)], store) == [(200, bytes(range(256)))]


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "message"),
    [
        ("PUT", "/api/put", {"key": "s"}, 400, "Missing key or value"),
        ("PUT", "/api/put", {"key": "s", "value": 3}, 400, "key and value must be strings"),
        ("PUT", "/api/put", "nope", 400,
         "The body must be a JSON object, but it is none: Expecting value: line 1 column 1 (char 0)"),
        ("PUT", "/api/put", [1], 400, "The body must be a JSON object"),
        ("GET", "/api/get/none", None, 404, "Key not found"),
        ("GET", "/api/exist/unreachable", None, 500, "Exist check failed"),
        ("POST", "/api/mount", {"size": "x"}, 400, "Invalid size, must be a positive integer"),
        ("POST", "/api/mount", {"size": True}, 400, "Invalid size, must be a positive integer"),
        ("POST", "/api/mount_shm", {"name": "../x", "size": 1}, 400,
         "Missing or invalid name or size"),
        ("POST", "/api/mount_shm", {"name": "..", "size": 1}, 400,
         "Missing or invalid name or size"),
        ("POST", "/api/mount_shm", {"name": "x"}, 400, "Missing or invalid name or size"),
        ("POST", "/api/mount_shm", {"name": "x", "size": 1, "offset": -1}, 400,
         "Invalid offset, must be a non-negative integer"),
        ("POST", "/api/unmount_shm", {"segment_ids": []}, 400, "Missing segment_ids"),
        ("POST", "/api/unmount", {"segment_ids": [1]}, 400,
         "Invalid segment_ids, must be a list of strings"),
        ("POST", "/api/unmount", {"segment_ids": ["00"]}, 500, "Unmount failed, ret=-101"),
        ("POST", "/api/unmount_local_disk", {"grace_period_seconds": 3601}, 400,
         "Invalid grace_period_seconds, must be from 0 to 3600"),
        ("POST", "/api/reconfigure", {"mode": "zz"}, 400,
         "Invalid mode. Use 'decode' or 'prefill'"),
        ("POST", "/api/reconfigure", {"mode": "decode"}, 400, "Missing path or size for mode decode"),
    ],
)
def test_errors_have_status_and_text(method, path, body, status, message):
    assert ask_one(method, path, body) == (status, {"error": message})


def test_a_removal_that_is_refused_says_why():
    status, body = ask_one("DELETE", "/api/remove/none")
    assert (status, body["error"], body["code"]) == (500, "Remove operation failed", -704)
    assert body["reason"] == "there is no such key"
    store = FakeStore()
    store.remove = lambda key, force=False: -706
    assert "lease" in ask_one("DELETE", "/api/remove/leased", store=store)[1]["reason"]


def test_remove_and_remove_all():
    store = FakeStore()
    store.values.update(a=b"1", b=b"2", c=b"3")
    assert ask_one("DELETE", "/api/remove/a", store=store) == (200, {"status": "success"})
    assert ask_one("DELETE", "/api/remove_all", store=store) == (
        200, {"status": "success removed 2 keys"},
    )


def test_memory_is_lent_and_withdrawn():
    store = FakeStore()
    status, answer = ask_one("POST", "/api/mount", {"size": 1 << 24}, store)
    assert status == 200 and answer["allocated_size"] == 1 << 24
    ids = {"segment_ids": answer["segment_ids"], "grace_period_seconds": 1}
    assert ask_one("POST", "/api/unmount", ids, store) == (200, {"status": "success"})
    assert store.segments == {}


def test_shared_memory_is_lent_from_its_folder():
    store = FakeStore()
    body = {"name": "seg", "size": 5, "offset": 2}
    status, answer = ask_one("POST", "/api/mount_shm", body, store)
    assert status == 200
    assert store.segments[answer["segment_ids"][0]] == ("/dev/shm/seg", 5, 2)


def test_partial_failures_of_unmount_are_listed():
    store = FakeStore()
    good = store.mount_segment("p", 1)["segment_ids"][0]
    status, answer = ask_one("POST", "/api/unmount_shm", {"segment_ids": ["bad", good]}, store)
    assert status == 500 and answer["failed"] == {"bad": -101}
    assert answer["failed_segment_ids"] == ["bad"]
    assert store.segments == {}


def test_failed_mount_says_its_code():
    store = FakeStore()
    store.refuse_mounts = True
    assert ask_one("POST", "/api/mount", {"size": 1}, store) == (
        500, {"error": "Mount failed, ret=-600"},
    )


def test_reconfigure_swaps_segments_and_takes_them_back():
    store = FakeStore()
    decode = {"mode": "decode", "path": "/dev/shm/x", "size": 4096}
    answers = ask(
        [
            ("POST", "/api/reconfigure", decode),
            ("POST", "/api/reconfigure", decode | {"path": "/dev/shm/y"}),
            ("POST", "/api/reconfigure", {"mode": "prefill"}),
        ],
        store,
    )
    assert [status for status, _ in answers] == [200, 200, 200]
    assert json.loads(answers[1][1])["mode"] == "decode"
    assert json.loads(answers[2][1]) == {"status": "success", "mode": "prefill"}
    assert store.segments == {}


def test_memory_that_is_lent_is_not_lent_again_before_it_is_taken_back():
    store = FakeStore()
    decode = {"mode": "decode", "path": "/dev/shm/x", "size": 4096}
    answers = ask(
        [
            ("POST", "/api/reconfigure", decode),
            ("POST", "/api/reconfigure", decode | {"offset": 4095}),
            ("POST", "/api/mount_shm", {"name": "x", "size": 1}),
            ("POST", "/api/mount_shm", {"name": "x", "size": 1, "offset": 4096}),
            ("POST", "/api/reconfigure", {"mode": "prefill"}),
            ("POST", "/api/reconfigure", decode),
            ("POST", "/api/unmount", {"segment_ids": ["0" * 32]}),
            ("POST", "/api/reconfigure", decode),
        ],
        store,
    )
    assert [status for status, _ in answers] == [200, 409, 409, 200, 200, 200, 200, 200]
    refused = json.loads(answers[1][1])
    assert "/dev/shm/x is lent already: unmount it first" in refused["error"]
    assert "keeping previous decode segments" in refused["error"] and refused["mode"] == "decode"


def test_only_shared_memory_is_lent(tmp_path):
    store = FakeStore()
    link = tmp_path / "link"
    link.symlink_to("/dev/shm/perigee-test")
    shm = "/dev/shm"
    for path in (shm, f"{shm}x", f"{shm}/../../etc/passwd", f"{shm}/a\0", "x", str(tmp_path)):
        body = {"mode": "decode", "path": path, "size": 4096}
        status, answer = ask_one("POST", "/api/reconfigure", body, store)
        assert status == 400 and "Only files in /dev/shm/ and" in answer["error"], path
    assert store.segments == {}
    body = {"mode": "decode", "path": str(link), "size": 4096}
    assert ask_one("POST", "/api/reconfigure", body, store)[0] == 200
    assert list(store.segments.values()) == [("/dev/shm/perigee-test", 4096, 0)]


def test_reconfigure_keeps_the_old_segment_when_the_new_one_fails():
    store = FakeStore()

    async def run():
        service = make_service(store)
        async with TestClient(TestServer(service.application())) as client:
            body = {"mode": "decode", "path": "/dev/shm/x", "size": 4096}
            first = await client.post("/api/reconfigure", json=body)
            store.refuse_mounts = True
            body["path"] = "/dev/shm/y"
            second = await client.post("/api/reconfigure", json=body)
            return first.status, second.status, await second.json()

    why = "Mount failed, ret=-600; keeping previous decode segments"
    assert asyncio.run(run()) == (200, 500, {"error": why, "mode": "decode"})
    assert len(store.segments) == 1


def test_a_first_segment_that_fails_leaves_the_mode_as_it_was():
    store = FakeStore()
    store.refuse_mounts = True
    body = {"mode": "decode", "path": "/dev/shm/x", "size": 4096}
    status, answer = ask_one("POST", "/api/reconfigure", body, store)
    why = "Mount failed, ret=-600; rolled back to prefill"
    assert (status, answer) == (500, {"error": why, "mode": "prefill"})


def test_an_old_segment_that_stays_is_named_beside_the_new_one_and_tried_again():
    store = FakeStore()
    unmount, stuck = store.unmount_segment, []
    store.unmount_segment = lambda ids, grace=0: -1 if ids[0] in stuck else unmount(ids, grace)

    async def run():
        async with TestClient(TestServer(make_service(store).application())) as client:
            body = {"mode": "decode", "path": "/dev/shm/x", "size": 4096}
            first = await (await client.post("/api/reconfigure", json=body)).json()
            stuck.extend(first["segment_ids"])
            body["path"] = "/dev/shm/y"
            second = await (await client.post("/api/reconfigure", json=body)).json()
            refused = await client.post("/api/reconfigure", json={"mode": "prefill"})
            stuck.clear()
            last = await client.post("/api/reconfigure", json={"mode": "prefill"})
            return first["segment_ids"], second["segment_ids"], refused.status, last.status

    old, both, refused, last = asyncio.run(run())
    assert set(old) < set(both) and (refused, last) == (500, 200)
    assert store.segments == {}


def test_an_empty_object_is_no_miss_and_an_unreachable_master_is_neither():
    store = FakeStore()
    store.put("empty", b"")
    empty, unreachable = ask(
        [("GET", "/api/get/empty", None), ("GET", "/api/get/unreachable", None)], store
    )
    assert empty == (200, b"")
    assert unreachable == (500, b'{"error": "Exist check failed"}')


def test_one_segment_may_stand_alone():
    store = FakeStore()
    name = store.mount_segment("p", 1)["segment_ids"][0]
    assert ask_one("POST", "/api/unmount_shm", {"segment_ids": name}, store)[0] == 200
    assert store.segments == {}


def test_unknown_route_is_404():
    ((status, body),) = ask([("GET", "/api/none", None)])
    assert (status, body) == (404, b"404: Not Found")


def test_body_beyond_the_limit_is_refused(monkeypatch):
    monkeypatch.setattr(service_module, "MAX_BODY_BYTES", 1000)
    ((status, _),) = ask([("PUT", "/api/put", {"key": "k", "value": "x" * 2000})])
    assert status == 413
