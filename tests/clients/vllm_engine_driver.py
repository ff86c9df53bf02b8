"""vLLM's encoder-cache transfer, and the transferring part of its connector for prefill and decode.

Stood in for: the connector's start, which wants a GPU platform; its worker is made without it.
"""

import torch
from patterns import pattern
from vllm.distributed.ec_transfer.ec_connector.mooncake.transfer import MooncakeTransfer
from vllm.distributed.kv_transfer.kv_connector.v1.mooncake.mooncake_connector import (
    MooncakeConnectorWorker,
    TransferEngine,
)
from vllm.distributed.kv_transfer.kv_connector.v1.mooncake.stats import MooncakeKVConnectorStats

HOST = "127.0.0.1"
BLOCKS = 16
BLOCK_BYTES = 33_000
DEAD_SESSION = f"{HOST}:1"


def encoder_consumer(meet):
    transfer = MooncakeTransfer(HOST, "tcp")
    cache = torch.zeros(BLOCKS, BLOCK_BYTES, dtype=torch.uint8)
    assert transfer.register_memory(cache) == 0
    meet(session=transfer.local_session(), address=cache.data_ptr())
    for block in range(BLOCKS):
        assert torch.equal(cache[block], pattern(f"image-{block}", BLOCK_BYTES)), f"image {block}"
    assert transfer.unregister_memory(cache)
    transfer.close()
    return None


def encoder_producer(meet, session, address):
    transfer = MooncakeTransfer(HOST, "tcp")
    transfer.ensure_ready()
    images = torch.stack([pattern(f"image-{block}", BLOCK_BYTES) for block in range(BLOCKS)])
    # Views of one storage are registered one by one, and twice where two requests share one.
    sources = transfer.acquire_sources(list(images))
    assert transfer.acquire_sources([images[0]]) == sources[:1]
    places = [address + block * BLOCK_BYTES for block in range(BLOCKS)]
    transfer.write(session, sources, places, [BLOCK_BYTES] * BLOCKS)
    try:
        transfer.write(DEAD_SESSION, sources, places, [BLOCK_BYTES] * BLOCKS)
    except RuntimeError as error:
        assert "failed with status" in str(error)
    else:
        raise AssertionError("a write to an absent peer succeeded")
    assert transfer.release_sources(sources[:1])
    assert transfer.release_sources(sources)
    assert transfer.release_sources(sources)
    transfer.close()
    return BLOCKS


def connector_worker(caches):
    """A worker as its start leaves it, with the given caches registered."""
    worker = object.__new__(MooncakeConnectorWorker)
    worker.engine = TransferEngine()
    assert worker.engine.initialize(HOST, "P2PHANDSHAKE", "tcp", "") == 0
    worker.rpc_port = worker.engine.get_rpc_port()
    worker.xfer_stats = MooncakeKVConnectorStats()
    worker.seen_base_addresses = [cache.data_ptr() for cache in caches]
    worker._kv_data_lens = [cache.nbytes for cache in caches]
    worker._kv_unregistered = True
    worker.restore_kv_caches()
    return worker


def layers(filled):
    return [
        pattern(f"layer-{layer}", BLOCKS * BLOCK_BYTES).view(BLOCKS, BLOCK_BYTES)
        if filled
        else torch.zeros(BLOCKS, BLOCK_BYTES, dtype=torch.uint8)
        for layer in range(4)
    ]


def decode(meet):
    caches = layers(filled=False)
    worker = connector_worker(caches)
    addresses = [cache.data_ptr() for cache in caches]
    meet(session=f"{HOST}:{worker.rpc_port}", addresses=addresses)
    for cache, expected in zip(caches, layers(filled=True), strict=True):
        assert torch.equal(cache[1:], expected[1:])
        assert not cache[0].any()
    worker.unregister_kv_caches()
    return None


def prefill(meet, session, addresses):
    caches = layers(filled=True)
    worker = connector_worker(caches)
    own = [cache.data_ptr() + BLOCK_BYTES for cache in caches]
    peer = [address + BLOCK_BYTES for address in addresses]
    lengths = [(BLOCKS - 1) * BLOCK_BYTES] * len(caches)
    assert worker._send_blocks(session, own, peer, lengths) == 0
    assert worker._send_blocks(DEAD_SESSION, own, peer, lengths) != 0
    worker.unregister_kv_caches()
    worker.restore_kv_caches()
    assert worker._send_blocks(session, own, peer, lengths) == 0
    worker.unregister_kv_caches()
    return len(caches)
