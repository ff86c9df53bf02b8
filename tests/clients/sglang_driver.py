"""SGLang's hierarchical cache store and its embedding store.

Stood in for, because they want an engine: the host pools, whose pages follow from their keys.
"""

import hashlib
import time
import urllib.request

import torch
from patterns import pattern
from sglang.srt.mem_cache.hicache_storage import (
    HiCacheStorageConfig,
    PoolHitPolicy,
    PoolName,
    PoolTransfer,
)
from sglang.srt.mem_cache.storage.mooncake_store.mooncake_embedding_store import (
    MooncakeEmbeddingStore,
)
from sglang.srt.mem_cache.storage.mooncake_store.mooncake_store import (
    MooncakeHostTensorAllocator,
    MooncakeStore,
)

PAGE_TOKENS = 16
TOKEN_BYTES = 256
PAGES = 64
PROMPT_PAGES = 12
#: The page of the prompt that the writer leaves out.
HOLE = 7
SEGMENT_BYTES = 64 << 20
DEADLINE_SECONDS = 30
POLL_SECONDS = 0.1
EMBEDDING_BYTES = 5000
PART_BYTES = (100, 4096, 1)


class HostPool:
    """Pages of several parts each, part by part, as a page-first host pool has them."""

    layout = "page_first"
    page_size = PAGE_TOKENS

    def __init__(self, parts, allocator=None):
        self.parts = parts
        self.part_bytes = PAGE_TOKENS * TOKEN_BYTES
        self.allocator = allocator
        shape = (PAGES, parts, self.part_bytes)
        if allocator:
            self.kv_buffer = allocator.allocate(shape, torch.uint8).zero_()
        else:
            self.kv_buffer = torch.zeros(shape, dtype=torch.uint8)

    def get_page_buffer_meta(self, indices):
        pages = indices.reshape(-1, PAGE_TOKENS)[:, 0] // PAGE_TOKENS
        parts = [self.kv_buffer[page, part] for page in pages for part in range(self.parts)]
        return [part.data_ptr() for part in parts], [part.numel() for part in parts]

    def get_ksize_per_token(self):
        return self.parts * TOKEN_BYTES

    def content(self, key):
        return pattern(key, self.parts * self.part_bytes).view(self.parts, self.part_bytes)

    def fill(self, keys, first_page):
        for page, key in enumerate(keys, first_page):
            self.kv_buffer[page] = self.content(key)

    def check(self, keys, first_page):
        for page, key in enumerate(keys, first_page):
            assert torch.equal(self.kv_buffer[page], self.content(key)), f"page of {key}"

    def check_zero(self, page):
        assert not self.kv_buffer[page].any(), f"page {page} was written"


def token_indices(first_page, pages):
    return torch.arange(first_page * PAGE_TOKENS, (first_page + pages) * PAGE_TOKENS)


def page_keys(prompt, count=PROMPT_PAGES):
    return [hashlib.sha256(f"{prompt}/{page}".encode()).hexdigest() for page in range(count)]


def configuration(master, http_port, lends_memory, is_mla=False, group_semantics=False, tag=None):
    return HiCacheStorageConfig(
        tp_rank=0,
        tp_size=1,
        pp_rank=0,
        pp_size=1,
        attn_cp_rank=0,
        attn_cp_size=1,
        is_mla_model=is_mla,
        enable_storage_metrics=True,
        is_page_first_layout=True,
        model_name="perigee/test-model",
        extra_config={
            "local_hostname": "127.0.0.1",
            "metadata_server": "P2PHANDSHAKE",
            "master_server_address": master,
            "protocol": "tcp",
            "device_name": "",
            "global_segment_size": SEGMENT_BYTES if lends_memory else 0,
            "master_metrics_port": http_port,
            "check_server": True,
            "enable_group_semantics": group_semantics,
            "extra_backend_tag": tag,
        },
    )


def connect(configured):
    """The store with a registered pool, as the cache controller makes them."""
    store = MooncakeStore(configured)
    pool = HostPool(1 if configured.is_mla_model else 2)
    store.register_mem_pool_host(pool)
    return store, pool


def write(meet, master, http_port, lends_memory, is_mla, group_semantics):
    configured = configuration(master, http_port, lends_memory, is_mla, group_semantics)
    store, pool = connect(configured)
    keys = page_keys("prompt")
    assert store.batch_exists(keys) == 0
    pool.fill(keys, 0)
    before, after = keys[:HOLE], keys[HOLE + 1 :]
    assert store.batch_set_v1(before, token_indices(0, len(before))) == [True] * len(before)
    assert store.batch_set_v1(after, token_indices(HOLE + 1, len(after))) == [True] * len(after)
    assert store.batch_exists(keys) == HOLE
    # Pages that are there already count as stored.
    assert store.batch_set_v1(before, token_indices(0, len(before))) == [True] * len(before)
    assert store.get_stats().backup_pgs, "nothing was counted as stored"
    meet()
    return None


def read(meet, master, http_port, is_mla):
    store, pool = connect(configuration(master, http_port, False, is_mla))
    keys = page_keys("prompt")
    assert store.batch_exists(keys) == HOLE
    assert store.batch_exists(keys[HOLE + 1 :]) == PROMPT_PAGES - HOLE - 1
    found = store.batch_get_v1(keys, token_indices(20, PROMPT_PAGES))
    assert found == [page != HOLE for page in range(PROMPT_PAGES)]
    pool.check(keys[:HOLE], 20)
    pool.check_zero(20 + HOLE)
    pool.check(keys[HOLE + 1 :], 20 + HOLE + 1)
    pool.check_zero(20 + PROMPT_PAGES)
    pool.check_zero(19)
    assert store.batch_exists(page_keys("other")) == 0
    other_tag, _ = connect(configuration(master, http_port, False, is_mla, tag="other"))
    assert other_tag.batch_exists(keys) == 0
    return sum(found)


def side_pools(meet, master, http_port):
    """Pools beside the main one, all of them in one operation."""
    configured = configuration(master, http_port, False, is_mla=True, group_semantics=True)
    store, pool = connect(configured)
    side = HostPool(1)
    store.register_mem_host_pool_v2(side, PoolName.INDEXER)
    keys = page_keys("side", 6)
    pool.fill(keys, 0)
    side.fill(keys, 0)
    assert all(store.batch_set_v1(keys, token_indices(0, 6)))
    stored = PoolTransfer(name=PoolName.INDEXER, host_indices=token_indices(0, 4), keys=keys[:4])
    assert store.batch_set_v2([stored]) == {PoolName.INDEXER: [True] * 4}
    asked = PoolTransfer(name=PoolName.INDEXER, keys=keys, hit_policy=PoolHitPolicy.ALL_PAGES)
    hit = store.batch_exists_v2(keys, [asked])
    wanted = PoolTransfer(name=PoolName.INDEXER, host_indices=token_indices(30, 6), keys=keys)
    found = store.batch_get_v2([wanted])
    assert found == {PoolName.INDEXER: [True] * 4 + [False] * 2}
    side.check(keys[:4], 30)
    side.check_zero(34)
    return hit.kv_hit_pages


def through_node(meet, master, http_port, node):
    """A client that lends nothing and is given a node's address: SGLang's standalone storage."""
    configured = configuration(master, http_port, False)
    configured.extra_config |= {"standalone_storage": True, "client_server_address": node}
    pool = HostPool(2, MooncakeHostTensorAllocator())
    store = MooncakeStore(configured, pool)
    store.register_mem_pool_host(pool)
    keys = page_keys("node", 4)
    pool.fill(keys, 0)
    assert store.batch_set_v1(keys, token_indices(0, 4)) == [True] * 4
    assert store.batch_exists([*keys, "absent"]) == 4
    found = store.batch_get_v1([*keys, "absent"], token_indices(30, 5))
    assert found == [True] * 4 + [False]
    pool.check(keys, 30)
    pool.check_zero(34)
    return sum(found)


def stored_keys(http_port):
    """Names of all objects; unlike asking for their existence, this does not lease them."""
    url = f"http://127.0.0.1:{http_port}/get_all_keys"
    with urllib.request.urlopen(url, timeout=DEADLINE_SECONDS) as reply:
        return reply.read().decode().split()


def clear(meet, master, http_port):
    """`remove_all()` spares leased objects, so it is called until the leases are over."""
    store, pool = connect(configuration(master, http_port, False))
    keys = page_keys("clear", 4)
    pool.fill(keys, 0)
    assert all(store.batch_set_v1(keys, token_indices(0, 4)))
    before = store.batch_exists(keys)
    assert len(stored_keys(http_port)) >= before
    deadline = time.monotonic() + DEADLINE_SECONDS
    while stored_keys(http_port):
        assert time.monotonic() < deadline, "objects outlive their leases and clear()"
        store.clear()
        time.sleep(POLL_SECONDS)
    return [before, store.batch_exists(keys)]


def write_embeddings(meet, master, http_port):
    store = MooncakeEmbeddingStore(configuration(master, http_port, True))
    names = [f"image-{number}" for number in range(5)]
    whole = torch.stack([pattern(name, EMBEDDING_BYTES) for name in names])
    store.register_buffer(whole)
    pointers = [row.data_ptr() for row in whole]
    sizes = [EMBEDDING_BYTES] * len(names)
    assert store.batch_is_exist(names) == [False] * len(names)
    assert store.batch_put(names, pointers, sizes) == [True] * len(names)
    assert store.batch_put(names, pointers, sizes) == [True] * len(names)
    parts = pattern("parts", sum(PART_BYTES))
    store.register_buffer(parts)
    starts = [sum(PART_BYTES[:part]) for part in range(len(PART_BYTES))]
    scattered = [parts.data_ptr() + start for start in starts]
    put = store.batch_put_from_multi_buffers(
        ["parts", names[0]], [scattered, [pointers[0]]], [list(PART_BYTES), [EMBEDDING_BYTES]]
    )
    assert put == [True, True]
    meet()
    return None


def read_embeddings(meet, master, http_port):
    store = MooncakeEmbeddingStore(configuration(master, http_port, False))
    names = [f"image-{number}" for number in range(5)]
    asked = [*names, "absent"]
    assert store.batch_is_exist(asked) == [True] * len(names) + [False]
    whole = torch.zeros(len(asked), EMBEDDING_BYTES, dtype=torch.uint8)
    store.register_buffer(whole)
    pointers = [row.data_ptr() for row in whole]
    found = store.batch_get(asked, pointers, [EMBEDDING_BYTES] * len(asked))
    assert found == [True] * len(names) + [False]
    for row, name in zip(whole, names, strict=False):
        assert torch.equal(row, pattern(name, EMBEDDING_BYTES)), name
    assert not whole[-1].any()
    # The parts come back into places that lie in another order.
    parts = torch.zeros(sum(PART_BYTES), dtype=torch.uint8)
    store.register_buffer(parts)
    starts = [sum(PART_BYTES[part + 1 :]) for part in range(len(PART_BYTES))]
    scattered = [parts.data_ptr() + start for start in starts]
    got = store.batch_get_into_multi_buffers(["parts"], [scattered], [list(PART_BYTES)])
    assert got == [True]
    in_order = [parts[start : start + size] for start, size in zip(starts, PART_BYTES, strict=True)]
    assert torch.equal(torch.cat(in_order), pattern("parts", sum(PART_BYTES)))
    return len(found)
