"""LMCache's connector for Mooncake over its own CPU backend, and its lookup client.

A chunk's bytes follow from its number and its process's model name, so that a reader in another
process knows what it must find.
"""

import asyncio

import torch
from lmcache.utils import CacheEngineKey
from lmcache.v1.config import LMCacheEngineConfig
from lmcache.v1.lookup_client.mooncake_lookup_client import MooncakeLookupClient
from lmcache.v1.memory_management import MemoryFormat
from lmcache.v1.metadata import LMCacheMetadata
from lmcache.v1.storage_backend.connector.mooncakestore_connector import MooncakestoreConnector
from lmcache.v1.storage_backend.local_cpu_backend import LocalCPUBackend
from lmcache.v1.token_database import ChunkedTokenDatabase

MODEL = "perigee/test-model"
LAYERS = 4
CHUNK_TOKENS = 256
HEADS = 2
HEAD_SIZE = 32
CHUNKS = 12
PARTIAL_TOKENS = 100
ABSENT_CHUNK = 1000
SEGMENT_BYTES = 64 << 20
LOCAL_BUFFER_BYTES = 32 << 20
CPU_GIB = 0.25
DEADLINE_SECONDS = 30


def configuration(master, save_chunk_meta, lends_memory):
    return LMCacheEngineConfig.from_defaults(
        chunk_size=CHUNK_TOKENS,
        local_cpu=False,
        max_local_cpu_size=CPU_GIB,
        remote_url=f"mooncakestore://{master}/",
        remote_serde="naive",
        extra_config={
            "local_hostname": "127.0.0.1",
            "metadata_server": "P2PHANDSHAKE",
            "master_server_address": master,
            # Mooncake's own name of that key: Mooncake ignores the other one.
            "mooncake_master_server_addr": master,
            "protocol": "tcp",
            "device_name": "",
            "global_segment_size": SEGMENT_BYTES if lends_memory else 0,
            "local_buffer_size": LOCAL_BUFFER_BYTES,
            "transfer_timeout": DEADLINE_SECONDS,
            "save_chunk_meta": save_chunk_meta,
            "mooncake_prefer_local_alloc": lends_memory,
        },
    )


def metadata():
    return LMCacheMetadata(
        model_name=MODEL,
        world_size=1,
        local_world_size=1,
        worker_id=0,
        local_worker_id=0,
        kv_dtype=torch.float16,
        kv_shape=(LAYERS, 2, CHUNK_TOKENS, HEADS, HEAD_SIZE),
        chunk_size=CHUNK_TOKENS,
    )


def key(chunk):
    return CacheEngineKey(MODEL, 1, 0, chunk + 1, torch.float16)


def content(chunk, tokens=CHUNK_TOKENS):
    generator = torch.Generator().manual_seed(chunk)
    count = 2 * LAYERS * tokens * HEADS * HEAD_SIZE * torch.float16.itemsize
    return torch.randint(0, 256, (count,), dtype=torch.uint8, generator=generator)


class Connection:
    """The connector with what an LMCache engine puts around it."""

    def __init__(self, master, save_chunk_meta, lends_memory):
        self.config = configuration(master, save_chunk_meta, lends_memory)
        self.backend = LocalCPUBackend(self.config, metadata())
        self.loop = asyncio.new_event_loop()
        self.connector = MooncakestoreConnector(self.loop, self.backend, self.config)
        assert bool(self.connector.save_chunk_meta) == save_chunk_meta

    def run(self, work):
        return self.loop.run_until_complete(asyncio.wait_for(work, DEADLINE_SECONDS))

    def chunk(self, number, tokens=CHUNK_TOKENS):
        """A memory object of the CPU backend with the chunk's bytes."""
        shape = torch.Size([2, LAYERS, tokens, HEADS * HEAD_SIZE])
        allocated = self.backend.allocate(shape, torch.float16, MemoryFormat.KV_2LTD)
        allocated.raw_tensor.view(torch.uint8).view(-1).copy_(content(number, tokens))
        return allocated

    def check(self, found, number, tokens=CHUNK_TOKENS):
        assert found is not None, f"chunk {number} is missing"
        assert found.get_size() == content(number, tokens).numel()
        got = torch.frombuffer(bytearray(found.byte_array), dtype=torch.uint8)
        assert torch.equal(got, content(number, tokens)), f"chunk {number} has other bytes"
        found.ref_count_down()

    def check_all(self):
        """Every chunk is there and right; what was not put is a miss among hits."""
        order = [CHUNKS - 1, ABSENT_CHUNK, *range(CHUNKS - 1)]
        found = self.run(self.connector.batched_get([key(chunk) for chunk in order]))
        assert len(found) == len(order)
        assert found[1] is None
        for chunk, one in zip(order, found, strict=True):
            if chunk != ABSENT_CHUNK:
                self.check(one, chunk)
        [partial] = self.run(self.connector.batched_get([key(CHUNKS)]))
        self.check(partial, CHUNKS, PARTIAL_TOKENS)

    def check_exists(self):
        assert self.connector.exists_sync(key(0))
        assert not self.connector.exists_sync(key(ABSENT_CHUNK))
        assert self.run(self.connector.exists(key(CHUNKS - 1)))
        keys = [key(0), key(1), key(ABSENT_CHUNK), key(2)]
        assert self.run(self.connector.batched_async_contains("lookup", keys)) == 2

    def close(self):
        self.run(self.connector.close())
        self.loop.close()


def write(meet, master, http_port, save_chunk_meta, lends_memory):
    connection = Connection(master, save_chunk_meta, lends_memory)
    assert connection.connector.registered_buffer_ptr is not None
    preferred = connection.connector.replica_config.preferred_segment
    assert bool(preferred) == lends_memory
    connection.run(connection.connector.put(key(0), connection.chunk(0)))
    chunks = list(range(1, CHUNKS))
    objects = [connection.chunk(chunk) for chunk in chunks]
    connection.run(connection.connector.batched_put([key(chunk) for chunk in chunks], objects))
    partial = connection.chunk(CHUNKS, PARTIAL_TOKENS)
    connection.run(connection.connector.put(key(CHUNKS), partial))
    connection.check_exists()
    connection.check_all()
    meet()
    connection.close()
    return {"segment": preferred}


def read(meet, master, http_port, save_chunk_meta):
    connection = Connection(master, save_chunk_meta, lends_memory=False)
    connection.check_exists()
    connection.check_all()
    connection.close()
    return CHUNKS + 1


def lookup(meet, master, http_port):
    """Puts the first 3 chunks of 5 of a prompt as the engine would name them, and asks."""
    connection = Connection(master, save_chunk_meta=False, lends_memory=False)
    tokens = [(7 * number) % 1000 for number in range(5 * CHUNK_TOKENS + 40)]
    database = ChunkedTokenDatabase(connection.config, metadata())
    keys = [key for _, _, key in database.process_tokens(tokens)]
    client = MooncakeLookupClient(connection.config, metadata(), master)
    assert client.lookup(tokens) == 0
    objects = [connection.chunk(chunk) for chunk in range(3)]
    connection.run(connection.connector.batched_put(keys[:3], objects))
    after_three = client.lookup(tokens)
    connection.run(connection.connector.put(keys[4], connection.chunk(4)))
    after_hole = client.lookup(torch.tensor(tokens))
    client.store.close()
    connection.close()
    return [after_three, after_hole]
