"""vLLM's worker of its Mooncake store connector, with its threads and its lookup channel.

Stood in for, because they want an engine or a GPU: the engine's configuration, the parallel groups
of one rank, and the CUDA event that a save waits for.
"""

import hashlib
import json
import os
import tempfile
import time
from types import SimpleNamespace

import torch
from vllm.distributed.kv_transfer.kv_connector.v1.mooncake.store import worker as worker_module
from vllm.distributed.kv_transfer.kv_connector.v1.mooncake.store.data import (
    LoadSpec,
    MooncakeStoreConnectorMetadata,
    ReqMeta,
)
from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec

BLOCK_TOKENS = 16
KV_HEADS = 2
HEAD_SIZE = 32
LAYERS = 4
CACHE_BLOCKS = 64
#: Makes blocks of 256 KiB, few of which fill a pool.
LARGE_HEAD_SIZE = 512
PROMPT_BLOCKS = 8
#: Tokens of the prompt after its last full block: never stored.
PROMPT_REST = 5
LOCAL_BUFFER_BYTES = 16 << 20
SEGMENT_BYTES = 64 << 20
DEADLINE_SECONDS = 30
POLL_SECONDS = 0.01


class Event:
    """Stands for the CUDA event: on a CPU the cache is written when the call returns."""

    def record(self):
        pass

    def synchronize(self):
        pass


def stand_in():
    one_rank = SimpleNamespace(world_size=1, rank_in_group=0)
    worker_module.get_tensor_model_parallel_rank = lambda: 0
    worker_module.get_tensor_model_parallel_world_size = lambda: 1
    worker_module.get_pcp_group = lambda: one_rank
    worker_module.get_dcp_group = lambda: one_rank
    torch.cuda.Event = Event


def environment(master, lends_memory, socket_folder):
    """The store's configuration file, and where the lookup channel has its socket."""
    with open("mooncake.json", "w") as file:
        json.dump(
            {
                "metadata_server": "P2PHANDSHAKE",
                "master_server_address": master,
                "protocol": "tcp",
                "device_name": "",
                "mode": "embedded" if lends_memory else "standalone-store",
                "global_segment_size": SEGMENT_BYTES if lends_memory else 0,
                "local_buffer_size": LOCAL_BUFFER_BYTES,
            },
            file,
        )
    os.environ["MOONCAKE_CONFIG_PATH"] = os.path.abspath("mooncake.json")
    os.environ["MOONCAKE_REQUESTER_LOCAL_HOSTNAME"] = "127.0.0.1"
    os.environ["VLLM_MOONCAKE_STORE_TIER_LOG"] = "1"
    os.environ["VLLM_RPC_BASE_PATH"] = socket_folder


def engine_configuration(group_semantics, cache_blocks):
    return SimpleNamespace(
        model_config=SimpleNamespace(
            model="perigee/test-model",
            get_num_layers=lambda parallel: LAYERS,
            get_total_num_kv_heads=lambda: KV_HEADS,
        ),
        parallel_config=SimpleNamespace(
            data_parallel_index=0,
            pipeline_parallel_size=1,
            rank=0,
            decode_context_parallel_size=1,
        ),
        kv_transfer_config=SimpleNamespace(
            kv_role="kv_both",
            kv_connector_extra_config={"enable_group_semantics": str(group_semantics)},
        ),
        cache_config=SimpleNamespace(
            block_size=BLOCK_TOKENS,
            prefix_match_unit=None,
            enable_prefix_caching=True,
            num_gpu_blocks=cache_blocks,
        ),
        kv_events_config=None,
        speculative_config=None,
    )


def cache_configuration(cache_blocks, head_size):
    spec = FullAttentionSpec(
        block_size=BLOCK_TOKENS,
        num_kv_heads=KV_HEADS,
        head_size=head_size,
        dtype=torch.float16,
    )
    names = [f"layer.{layer}" for layer in range(LAYERS)]
    return KVCacheConfig(
        num_blocks=cache_blocks,
        kv_cache_tensors=[],
        kv_cache_groups=[KVCacheGroupSpec(names, spec)],
    )


def block_hashes(prompt, count=PROMPT_BLOCKS):
    """Chained digests, as the engine makes them."""
    hashes = []
    for block in range(count):
        previous = hashes[-1] if hashes else b""
        hashes.append(hashlib.sha256(previous + f"{prompt}/{block}".encode()).digest())
    return hashes


def content(block_hash, layer, size_bytes):
    generator = torch.Generator().manual_seed(int.from_bytes(block_hash[:6], "big") + layer)
    return torch.randint(0, 256, (size_bytes,), dtype=torch.uint8, generator=generator)


class Engine:
    """The worker and the caches that the engine gives it."""

    def __init__(
        self,
        master,
        lends_memory=False,
        group_semantics=False,
        cache_blocks=CACHE_BLOCKS,
        head_size=HEAD_SIZE,
    ):
        stand_in()
        # Not the folder of the test: its name is too long for a socket's.
        self.socket_folder = tempfile.TemporaryDirectory(prefix="vllm-")
        environment(master, lends_memory, self.socket_folder.name)
        configuration = engine_configuration(group_semantics, cache_blocks)
        self.worker = worker_module.MooncakeStoreWorker(
            configuration, cache_configuration(cache_blocks, head_size)
        )
        shape = (cache_blocks, KV_HEADS, BLOCK_TOKENS, 2 * head_size)
        self.caches = {
            f"layer.{layer}": torch.zeros(shape, dtype=torch.float16) for layer in range(LAYERS)
        }
        self.worker.register_kv_caches(self.caches)
        self.scheduler = worker_module.LookupKeyClient(configuration)
        self.jobs = 0

    def block(self, layer, block):
        return self.caches[f"layer.{layer}"][block].view(torch.uint8).view(-1)

    def fill(self, hashes, blocks):
        for block_hash, block in zip(hashes, blocks, strict=True):
            for layer in range(LAYERS):
                destination = self.block(layer, block)
                destination.copy_(content(block_hash, layer, destination.numel()))

    def check(self, hashes, blocks):
        for block_hash, block in zip(hashes, blocks, strict=True):
            for layer in range(LAYERS):
                found = self.block(layer, block)
                same = torch.equal(found, content(block_hash, layer, found.numel()))
                assert same, f"block {block} of layer {layer} has other bytes"

    def check_zero(self, blocks):
        for block in blocks:
            assert not any(self.block(layer, block).any() for layer in range(LAYERS))

    def wait(self, what, poll):
        """The first true answer of `poll`."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not (answer := poll()):
            assert time.monotonic() < deadline, f"{what} took over {DEADLINE_SECONDS} s"
            time.sleep(POLL_SECONDS)
        return answer

    def save(self, request, hashes, blocks, ends=True):
        """Stores the blocks; returns how many keys each kind of operation had and lost."""
        self.jobs += 1
        step = MooncakeStoreConnectorMetadata({request}, set())
        step.add_request(
            ReqMeta(
                req_id=request,
                token_len_chunk=len(hashes) * BLOCK_TOKENS,
                block_ids=(blocks,),
                block_hashes=hashes,
                can_save=True,
                store_job_id=self.jobs,
                prefill_end_tokens=len(hashes) * BLOCK_TOKENS,
            )
        )
        self.worker.wait_for_save(step)
        done = self.wait("a save", self.worker.build_connector_worker_meta)
        assert done.completed_saves == {self.jobs: 1}
        ended = {request} if ends else set()
        self.worker.get_finished(ended, MooncakeStoreConnectorMetadata(set(), set()))
        return self.operations()

    def load(self, request, hashes, blocks):
        """Loads the blocks; returns those that the worker reports as failed."""
        tokens = len(hashes) * BLOCK_TOKENS
        step = MooncakeStoreConnectorMetadata({request}, set())
        step.add_request(
            ReqMeta(
                req_id=request,
                token_len_chunk=tokens,
                block_ids=(blocks,),
                block_hashes=hashes,
                load_spec=LoadSpec(0, tokens, can_load=True),
            )
        )
        self.worker.start_load_kv(step)
        nothing = MooncakeStoreConnectorMetadata(set(), set())
        received = self.wait("a load", lambda: self.worker.get_finished(set(), nothing)[1])
        assert received == {request}
        return self.worker.get_block_ids_with_load_errors()

    def hit_tokens(self, hashes, tokens=None):
        """What the scheduler learns over the lookup channel."""
        tokens = len(hashes) * BLOCK_TOKENS + PROMPT_REST if tokens is None else tokens
        return self.scheduler.lookup("lookup", tokens, hashes).hit_length

    def operations(self):
        """Keys and failed keys of every kind of operation since the last call."""
        stats = self.worker.get_kv_connector_stats()
        return {
            operation: (
                sum(record["num_keys"] for record in records),
                sum(record["num_failed_keys"] for record in records),
            )
            for operation, records in (stats.data if stats else {}).items()
        }

    def close(self):
        self.scheduler.close()
        self.worker.close()


def write(meet, master, http_port, lends_memory, group_semantics):
    engine = Engine(master, lends_memory, group_semantics)
    prompt = block_hashes("first")
    assert engine.hit_tokens(prompt) == 0
    engine.operations()
    blocks = list(range(1, 1 + PROMPT_BLOCKS))
    engine.fill(prompt, blocks)
    assert engine.save("first", prompt, blocks) == {
        "save_exists": (PROMPT_BLOCKS, 0),
        "save_put": (PROMPT_BLOCKS, 0),
    }
    assert engine.hit_tokens(prompt) == PROMPT_BLOCKS * BLOCK_TOKENS
    # The last token of a prompt is always computed, so a full hit gives back its last block.
    assert engine.hit_tokens(prompt, PROMPT_BLOCKS * BLOCK_TOKENS) == (
        (PROMPT_BLOCKS - 1) * BLOCK_TOKENS
    )
    engine.operations()
    longer = block_hashes("first", PROMPT_BLOCKS + 2)
    more = list(range(20, 20 + len(longer)))
    engine.fill(longer, more)
    assert engine.save("second", longer, more) == {
        "save_exists": (PROMPT_BLOCKS + 2, 0),
        "save_put": (2, 0),
    }
    meet()
    engine.close()
    return None


def read(meet, master, http_port):
    engine = Engine(master)
    stored = block_hashes("first", PROMPT_BLOCKS + 2)
    prompt = stored + block_hashes("unknown", 3)
    hit_blocks = engine.hit_tokens(prompt) // BLOCK_TOKENS
    assert hit_blocks == len(stored)
    blocks = list(range(30, 30 + hit_blocks))
    assert engine.load("hit", stored, blocks) == set()
    engine.check(stored, blocks)
    engine.check_zero([1, 29, 30 + hit_blocks, CACHE_BLOCKS - 1])
    # A block that was evicted after the lookup fails, and only it.
    lost = [*stored[:2], *block_hashes("unknown", 1), *stored[2:4]]
    blocks = list(range(50, 50 + len(lost)))
    assert engine.load("lost", lost, blocks) == {52}
    engine.check(stored[:4], [50, 51, 53, 54])
    engine.close()
    return hit_blocks


def reset(meet, master, http_port):
    """`remove_all(force=True)` over the lookup channel, leases or not."""
    engine = Engine(master)
    prompt = block_hashes("reset")
    blocks = list(range(1, 1 + PROMPT_BLOCKS))
    engine.fill(prompt, blocks)
    engine.save("reset", prompt, blocks)
    before = engine.hit_tokens(prompt)
    assert engine.load("leased", prompt, [block + 20 for block in blocks]) == set()
    assert engine.scheduler.reset()
    after = engine.hit_tokens(prompt)
    engine.close()
    return [before, after]


def pressure(meet, master, http_port, pool_bytes):
    """A request larger than the pool: the worker must see that it was space that was missing."""
    block_bytes = LAYERS * KV_HEADS * BLOCK_TOKENS * 2 * LARGE_HEAD_SIZE * torch.float16.itemsize
    count = 2 * pool_bytes // block_bytes
    engine = Engine(master, cache_blocks=count + 100, head_size=LARGE_HEAD_SIZE)
    large = block_hashes("large", count)
    blocks = list(range(1, 1 + count))
    engine.fill(large, blocks)
    stored, failed = engine.save("large", large, blocks, ends=False)["save_put"]
    assert stored == count
    assert 0 < failed < count
    # Without space the worker leaves that request alone until another save succeeds.
    assert engine.save("large", large, blocks, ends=False) == {}
    small = block_hashes("small")
    engine.fill(small, range(count + 1, count + 1 + PROMPT_BLOCKS))
    engine.wait("space for a small request", lambda: saves_all(engine, small, count + 1))
    found = engine.load("small", small, list(range(count + 11, count + 11 + PROMPT_BLOCKS)))
    assert found == set()
    engine.check(small, range(count + 11, count + 11 + PROMPT_BLOCKS))
    assert "save_exists" in engine.save("large", large, blocks)
    engine.close()
    return None


def saves_all(engine, hashes, first_block):
    operations = engine.save("small", hashes, list(range(first_block, first_block + len(hashes))))
    return operations.get("save_put", (0, 0))[1] == 0
