"""Routers of other projects, played as consumers of a real master: Dynamo's and Mooncake's own."""

import contextlib
import hashlib
import json
import urllib.parse

import pytest
from conftest import connect
from event_consumers import Conductor, HicacheIndex, page_group, page_hashes, page_keys
from event_master import SEGMENT_BYTES, Master

from mooncake.store import MooncakeDistributedStore, ReplicateConfig

PAGE = 4
TOKENS = list(range(100, 100 + 6 * PAGE)) + [7]
PAGES = page_hashes(TOKENS, PAGE)
VALUE_BYTES = 64 << 10
MODEL = ("--kv_events_model_name=a-model", f"--kv_events_block_size={PAGE}")


@pytest.fixture
def master(tmp_path):
    one = Master(tmp_path, MODEL)
    yield one
    one.process.stop()


@pytest.fixture
def engine(master):
    """The store of an engine, which lends its memory."""
    client = connect(f"127.0.0.1:{master.rpc}", SEGMENT_BYTES)
    yield client
    client.close()


def endpoint(master):
    return f"tcp://127.0.0.1:{master.publish}"


@pytest.fixture
def index(master, engine):
    one = HicacheIndex(endpoint(master))
    one.join(engine)
    yield one
    one.close()


def registration(master, **more):
    """Return what an operator posts to the conductor's /register for this master."""
    return {
        "endpoint": endpoint(master),
        "replay_endpoint": f"tcp://127.0.0.1:{master.replay}",
        "type": "Mooncake",
        "modelname": "a-model",
        "instance_id": "engine-0",
        "block_size": PAGE,
        "dp_rank": 0,
        "hash_profile": {
            "strategy": "sglang", "algorithm": "sha256", "index_projection": "high64_be",
        },
    } | more


def write_page(store, page, value=b"kv", **layout):
    """Store the parts of a page in its group."""
    config = ReplicateConfig()
    config.group_ids = [page_group(page, layout.get("tag"))]
    for key in page_keys(page, **layout):
        assert store.put(key, value, config) == 0


def ask(master, keys):
    """Ask for keys with commas as they are, the way Dynamo does it; return which are there."""
    names = ",".join(urllib.parse.quote(key, safe="") for key in keys)
    answer = json.loads(master.get(f"/batch_query_keys?keys={names}"))
    assert answer["success"] is True and set(answer["data"]) == set(keys)
    assert all(type(one["ok"]) is bool for one in answer["data"].values())
    return [answer["data"][key]["ok"] for key in keys]


def test_pages_have_the_names_that_sglang_gives_them():
    known = [
        "cf97adeedb59e05bfd73a2b4c2a8885708c4f4f70c84c64b27120e72ab733b72",
        "4ebfa8a1f3c341517621838c6e1b9aa350307e3f00b3cbd1a07ef740f54396d6",
    ]
    assert page_hashes([1, 2, 3, 4, 5, 6, 7, 8, 9, 10], 4) == known
    assert page_keys("hash", mla=True) == ["hash__k"]


def test_a_router_with_hicache_knows_which_pages_of_a_prompt_are_stored(master, engine, index):
    assert index.hits(TOKENS, PAGE) == [False] * 6
    for page in PAGES[:4]:
        write_page(engine, page)
    index.wait_for(lambda: index.hits(TOKENS, PAGE) == [True] * 4 + [False] * 2, "four pages")
    assert len(index.groups) == 4 and all(index.groups.values()), "each group was found whole"
    # What it would have asked for before there were events says the same.
    for page, hit in zip(PAGES, index.hits(TOKENS, PAGE)):
        assert ask(master, page_keys(page)) == [hit, hit]
    # A part that goes takes its page with it, although its group was found whole.
    assert engine.remove(page_keys(PAGES[1])[1], True) == 0
    index.wait_for(lambda: not index.hits(TOKENS, PAGE)[1], "a page without a part")
    assert ask(master, page_keys(PAGES[1])) == [True, False]
    assert engine.remove_all(True) > 0
    index.wait_for(lambda: not index.present and not index.groups, "an empty store")
    assert index.gaps == 0


@pytest.mark.parametrize("layout", [{"ranks": 2}, {"mla": True}, {"tag": "a-model", "ranks": 2}])
def test_pages_of_every_layout_are_found(master, engine, index, layout):
    write_page(engine, PAGES[0], **layout)
    index.wait_for(lambda: index.hits(TOKENS, PAGE, **layout)[0], f"a page of {layout}")
    assert all(ask(master, page_keys(PAGES[0], **layout)))


def test_a_router_with_hicache_does_not_see_pages_of_other_tenants(master, engine, index):
    other = MooncakeDistributedStore()
    place = ("127.0.0.1", "P2PHANDSHAKE", 0, 16 << 20, "tcp", "", f"127.0.0.1:{master.rpc}")
    assert other.setup(*place, tenant_id="blue") == 0
    with contextlib.closing(other):
        write_page(other, PAGES[0])
        write_page(engine, PAGES[1])
        index.wait_for(lambda: index.hits(TOKENS, PAGE)[1], "the page of its own tenant")
        assert not index.hits(TOKENS, PAGE)[0]
        assert ask(master, page_keys(PAGES[0])) == [False, False]


def test_a_router_with_hicache_has_no_ghosts_after_evictions_and_a_restart(master, engine, index):
    for page in PAGES:
        write_page(engine, page, b"v" * VALUE_BYTES)
    index.wait_for(lambda: all(index.hits(TOKENS, PAGE)), "all pages")
    for number in range(3 * SEGMENT_BYTES // VALUE_BYTES):
        assert engine.put(f"more-{number}", b"v" * VALUE_BYTES) in (0, -200)
    index.wait_for(lambda: index.present == master.keys(), "what the master has")
    assert index.gaps == 0 and not all(index.hits(TOKENS, PAGE))
    engine.close()
    master.kill()
    master.start()
    with contextlib.closing(connect(f"127.0.0.1:{master.rpc}", SEGMENT_BYTES)) as another:
        attempt = 0

        def seen():
            nonlocal attempt
            attempt += 1
            assert another.put(f"after-{attempt}", b"value") == 0
            return index.gaps > 0

        index.wait_for(seen, "the gap of a restart")
        write_page(another, PAGES[2])
        index.wait_for(lambda: index.hits(TOKENS, PAGE)[2], "a page of the new life")
        assert index.present <= master.keys()


def test_a_conductor_takes_the_registration_and_finds_prompts_by_tier(tmp_path):
    master = Master(tmp_path, ("--enable_offload", "--offload_on_evict=false", *MODEL))
    with contextlib.ExitStack() as stack:
        stack.callback(lambda: master.process.stop())
        disk = {"enable_ssd_offload": True, "ssd_offload_path": str(tmp_path / "disk")}
        engine = connect(f"127.0.0.1:{master.rpc}", SEGMENT_BYTES, **disk)
        stack.callback(engine.close)
        conductor = Conductor(registration(master))
        stack.callback(conductor.close)
        conductor.join(engine)
        for page in PAGES[:5]:
            write_page(engine, page)
        whole = {"cpu": 5 * PAGE, "disk": 5 * PAGE}
        conductor.wait_for(lambda: conductor.longest(TOKENS, PAGE) == whole, "both tiers")
        for key in page_keys(PAGES[2]):
            assert engine.remove(key, True) == 0
        cut = {"cpu": 2 * PAGE, "disk": 2 * PAGE}
        conductor.wait_for(lambda: conductor.longest(TOKENS, PAGE) == cut, "a shorter beginning")
        # Keys that are no pages are decoded, and no part of the index.
        assert engine.put("12345", b"value") == 0
        assert engine.put("a key", b"value") == 0
        assert engine.remove_all(True) > 0
        empty = {"cpu": 0, "disk": 0}
        conductor.wait_for(lambda: conductor.longest(TOKENS, PAGE) == empty, "nothing")
        first = conductor.event_ids[0]
        assert conductor.event_ids == [*range(first, first + len(conductor.event_ids))]
        assert not conductor.stale


def block_keys(number):
    """Return the keys in which vLLM stores a block on two ranks."""
    name = hashlib.sha256(bytes([number])).hexdigest()
    return name, [f"a-model@tp_rank:{rank}@pcp0@dcp0@pp_rank:0@{name}" for rank in range(2)]


def test_a_conductor_finds_the_blocks_that_vllm_stores(master, engine):
    profile = {"strategy": "vllm_v1", "algorithm": "sha256", "index_projection": "low64_be"}
    with contextlib.closing(Conductor(registration(master, hash_profile=profile))) as conductor:
        conductor.join(engine)
        (kept, kept_keys), (gone, gone_keys) = block_keys(0), block_keys(1)
        for key in kept_keys + gone_keys:
            assert engine.put(key, b"kv") == 0
        cpu = conductor.parts["cpu"]
        conductor.wait_for(lambda: cpu.get(gone) == set(gone_keys), "a block of two ranks")
        for key in gone_keys:
            assert engine.remove(key, True) == 0
        conductor.wait_for(lambda: not cpu[gone], "a block that is removed")
        assert cpu[kept] == set(kept_keys)
        # The keys with which this consumer joined are no blocks.
        assert conductor.refused <= {"object_key is of another form"}


def test_a_conductor_says_which_settings_a_master_without_a_model_lacks(tmp_path):
    master = Master(tmp_path)
    with contextlib.ExitStack() as stack:
        stack.callback(lambda: master.process.stop())
        engine = connect(f"127.0.0.1:{master.rpc}", SEGMENT_BYTES)
        stack.callback(engine.close)
        conductor = stack.enter_context(contextlib.closing(Conductor(registration(master))))
        conductor.join(engine)
        write_page(engine, PAGES[0])
        conductor.wait_for(lambda: conductor.refused, "an event that is refused")
        assert conductor.longest(TOKENS, PAGE) == {"cpu": 0, "disk": 0}


def test_conductors_of_two_tenants_have_their_own_pages_and_forget_a_master_that_restarts(
    master, engine
):
    with contextlib.ExitStack() as stack:
        red = Conductor(registration(master, tenant_id="red"))
        plain = Conductor(registration(master))
        for conductor in (red, plain):
            stack.callback(conductor.close)
            conductor.join(engine)
        other = MooncakeDistributedStore()
        place = ("127.0.0.1", "P2PHANDSHAKE", 0, 16 << 20, "tcp", "", f"127.0.0.1:{master.rpc}")
        assert other.setup(*place, tenant_id="red") == 0
        stack.callback(other.close)
        write_page(other, PAGES[0])
        write_page(engine, PAGES[1])
        red.wait_for(lambda: red.longest(TOKENS, PAGE)["cpu"] == PAGE, "the page of red")
        plain.wait_for(lambda: PAGES[1] in plain.parts["cpu"], "the page of no tenant")
        assert PAGES[1] not in red.parts["cpu"] and PAGES[0] not in plain.parts["cpu"]
        master.kill()
        master.start()
        again = connect(f"127.0.0.1:{master.rpc}", SEGMENT_BYTES)
        stack.callback(again.close)
        attempt = 0

        def seen():
            nonlocal attempt
            attempt += 1
            assert again.put(f"after-{attempt}", b"value") == 0
            return plain.stale

        plain.wait_for(seen, "the gap of a restart")
        assert plain.longest(TOKENS, PAGE) == {"cpu": 0, "disk": 0}
