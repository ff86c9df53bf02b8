"""The calls that SGLang's and vLLM's disaggregation make: one engine waits for blocks, the other writes them there.

engine.py decode HOST, which prints `session SESSION ADDRESS`; engine.py prefill HOST SESSION ADDRESS.
"""

import os
import sys
import time

from memory import Memory, pattern
from mooncake.engine import TransferEngine

BLOCKS = 32
BLOCK_BYTES = 33_000
DEADLINE_S = 240


def start(host):
    """An engine with a registered cache."""
    engine = TransferEngine()
    protocol, device = os.environ.get("MOONCAKE_PROTOCOL", "tcp"), os.environ.get("MOONCAKE_DEVICE", "")
    code = engine.initialize(host, "P2PHANDSHAKE", protocol, device)
    assert code == 0, f"initialize answers {code}"
    cache = Memory(BLOCKS, BLOCK_BYTES)
    assert engine.batch_register_memory([cache.address], [cache.bytes]) == 0
    return engine, cache


def decode(host):
    """Wait for the last block, which is written when all others are there."""
    engine, cache = start(host)
    print("session", f"{host}:{engine.get_rpc_port()}", cache.address, flush=True)
    deadline = time.monotonic() + DEADLINE_S
    while cache.page(BLOCKS - 1) != pattern(f"block-{BLOCKS - 1}", BLOCK_BYTES):
        assert time.monotonic() < deadline, "no blocks came"
        time.sleep(0.01)
    for block in range(BLOCKS):
        assert cache.page(block) == pattern(f"block-{block}", BLOCK_BYTES), f"wrong bytes in block {block}"
    assert engine.batch_unregister_memory([cache.address]) == 0
    print("received", BLOCKS)


def prefill(host, session, address):
    """Send all blocks but the last in one batch, then that one."""
    engine, cache = start(host)
    for block in range(BLOCKS):
        cache.fill(block, pattern(f"block-{block}", BLOCK_BYTES))
    assert engine.send_probe(session) == 0
    own = [cache.at(block) for block in range(BLOCKS)]
    there = [int(address) + block * BLOCK_BYTES for block in range(BLOCKS)]
    lengths = [BLOCK_BYTES] * (BLOCKS - 1)
    assert engine.batch_transfer_sync_write(session, own[:-1], there[:-1], lengths) == 0
    assert engine.transfer_sync_write(session, own[-1], there[-1], BLOCK_BYTES) == 0
    print("sent", BLOCKS)


if __name__ == "__main__":
    {"decode": decode, "prefill": prefill}[sys.argv[1]](*sys.argv[2:])
