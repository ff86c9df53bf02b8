"""SGLang's wrapper of the transfer engine, as prefill, decode and weight loading use it."""

import torch
from patterns import pattern
from sglang.srt.distributed.device_communicators.mooncake_transfer_engine import (
    MooncakeTransferEngine,
)

HOST = "127.0.0.1"
PAGES = 32
PAGE_BYTES = 48 << 10
DEAD_SESSION = f"{HOST}:1"


def start():
    engine = MooncakeTransferEngine(HOST, gpu_id=0, ib_device=None)
    memory = torch.zeros(PAGES, PAGE_BYTES, dtype=torch.uint8)
    engine.register(memory.data_ptr(), memory.nbytes)
    return engine, memory


def decode(meet):
    """Waits for pages; then its memory must have them and nothing else."""
    engine, memory = start()
    weights = pattern("weights", PAGE_BYTES)
    assert engine.batch_register([weights.data_ptr()], [weights.nbytes]) == 0
    meet(session=engine.get_session_id(), address=memory.data_ptr(), weights=weights.data_ptr())
    for page in range(PAGES - 1):
        assert torch.equal(memory[page], pattern(f"page-{page}", PAGE_BYTES)), f"page {page}"
    assert not memory[-1].any()
    engine.deregister(memory.data_ptr())
    assert engine.batch_deregister([weights.data_ptr()]) == 0
    return None


def prefill(meet, session, address, weights):
    """Sends one page alone and the others together, last ones first, and reads the weights."""
    engine, memory = start()
    for page in range(PAGES - 1):
        memory[page] = pattern(f"page-{page}", PAGE_BYTES)
    own = [memory.data_ptr() + page * PAGE_BYTES for page in range(PAGES)]
    peer = [address + page * PAGE_BYTES for page in range(PAGES)]
    assert engine.send_probe(session) == 0
    assert engine.send_probe(DEAD_SESSION) != 0
    assert engine.transfer_sync(session, own[0], peer[0], PAGE_BYTES) == 0
    rest = range(PAGES - 2, 0, -1)
    sent = engine.batch_transfer_sync(
        session, [own[it] for it in rest], [peer[it] for it in rest], [PAGE_BYTES] * len(rest)
    )
    assert sent == 0
    assert engine.transfer_sync(DEAD_SESSION, own[0], peer[0], PAGE_BYTES) < 0
    assert engine.transfer_sync(session, own[0], peer[0] - 1, 1) < 0
    # The weight loader calls the engine inside.
    read = engine.engine.batch_transfer_sync_read(session, [own[-1]], [weights], [PAGE_BYTES])
    assert read == 0 and torch.equal(memory[-1], pattern("weights", PAGE_BYTES))
    assert engine.batch_register([own[0]], [PAGE_BYTES]) != 0
    assert engine.get_engine() is not None
    return len(rest) + 1
