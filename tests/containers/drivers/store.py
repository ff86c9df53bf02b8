"""The calls that SGLang's hierarchical cache and vLLM's store connector make, without the engines.

store.py write|read MASTER METADATA LENT_BYTES HOSTNAME MODEL. The model's name is part of all keys. The writer stays, because what it
lends goes with it. MOONCAKE_PROTOCOL and MOONCAKE_DEVICE are SGLang's variables.
"""

import os
import signal
import sys

from memory import Memory, pattern
from mooncake.store import MooncakeDistributedStore, ReplicateConfig

PAGES = 24
PAGE_BYTES = 96 << 10
LOCAL_BUFFER_BYTES = 16 << 20
MODEL = sys.argv[-1]
WHOLE = [f"{MODEL}-sglang-{page}" for page in range(PAGES)]
PARTED = [f"{MODEL}-vllm-{block}" for block in range(PAGES)]


def connect(master, metadata, lent, hostname):
    """As SGLang does: one try, then a warm-up that must read what it wrote."""
    store = MooncakeDistributedStore()
    protocol, device = os.environ.get("MOONCAKE_PROTOCOL", "tcp"), os.environ.get("MOONCAKE_DEVICE", "")
    code = store.setup(hostname, metadata, int(lent), LOCAL_BUFFER_BYTES, protocol, device, master)
    assert code == 0, f"setup answers {code}"
    key, value = f"warm-up-{hostname}", pattern("warm-up", 4096)
    assert store.put(key, value) == 0
    assert store.is_exist(key) == 1 and store.get(key) == value
    memory = Memory(2 * PAGES, PAGE_BYTES)
    assert store.register_buffer(memory.address, memory.bytes) == 0
    return store, memory


def halves(memory, page):
    """Addresses and lengths of the two parts of a block, as key and value of a layer."""
    cut = PAGE_BYTES // 3
    return [memory.at(page), memory.at(page) + cut], [cut, PAGE_BYTES - cut]


def write(store, memory):
    """SGLang's pages in one piece, vLLM's blocks in two."""
    for page, key in enumerate(WHOLE + PARTED):
        memory.fill(page, pattern(key, PAGE_BYTES))
    assert store.batch_is_exist(WHOLE) == [0] * PAGES
    addresses = [memory.at(page) for page in range(PAGES)]
    assert store.batch_put_from(WHOLE, addresses, [PAGE_BYTES] * PAGES) == [0] * PAGES
    parts = [halves(memory, PAGES + block) for block in range(PAGES)]
    put = store.batch_put_from_multi_buffers(
        PARTED, [part[0] for part in parts], [part[1] for part in parts], ReplicateConfig()
    )
    assert all(code >= 0 for code in put), put
    assert store.batch_is_exist(WHOLE + PARTED) == [1] * (2 * PAGES)


def read(store, memory):
    """Everything the writer wrote, into memory of this process; a key that was never written is a miss."""
    assert store.batch_is_exist([*WHOLE, "absent"]) == [1] * PAGES + [0]
    addresses = [memory.at(page) for page in range(PAGES)]
    assert store.batch_get_into(WHOLE, addresses, [PAGE_BYTES] * PAGES) == [PAGE_BYTES] * PAGES
    parts = [halves(memory, PAGES + block) for block in range(PAGES)]
    got = store.batch_get_into_multi_buffers(PARTED, [part[0] for part in parts], [part[1] for part in parts])
    assert got == [PAGE_BYTES] * PAGES, got
    for page, key in enumerate(WHOLE + PARTED):
        assert memory.page(page) == pattern(key, PAGE_BYTES), f"wrong bytes of {key}"
    assert all(store.batch_get_replica_desc(WHOLE)[key] for key in WHOLE)


def main():
    role, *arguments = sys.argv[1:-1]
    store, memory = connect(*arguments)
    if role == "read":
        read(store, memory)
        print("read", 2 * PAGES)
    else:
        write(store, memory)
        print("written", 2 * PAGES, flush=True)
        signal.sigwait([signal.SIGTERM])
    assert store.unregister_buffer(memory.address) == 0
    assert store.close() == 0


if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    main()
