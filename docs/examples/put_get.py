"""Store and read objects, first with copies, then straight from and into a buffer.

Usage: python put_get.py MASTER_HOST:PORT
"""

import ctypes
import os
import sys

from mooncake.store import MooncakeDistributedStore

if len(sys.argv) != 2:
    sys.exit(__doc__)
MASTER = sys.argv[1]
LENT_BYTES = 0  # this process only uses the pool; nodes lend the memory
LOCAL_BUFFER_BYTES = 64 << 20  # for calls that copy
BLOCK_BYTES = 256 << 10
BLOCKS = 16

store = MooncakeDistributedStore()
code = store.setup(
    "127.0.0.1",  # the name or address by which other hosts reach this process
    "P2PHANDSHAKE",  # no metadata server
    LENT_BYTES,
    LOCAL_BUFFER_BYTES,
    "tcp",
    "",
    MASTER,
)
if code != 0:
    sys.exit(f"setup answered {code}; the log names the reason")

# One object, with copies.
assert store.put("example/greeting", b"hello") == 0
assert store.get("example/greeting") == b"hello"
assert store.get("example/unknown") == b"", "a miss is an empty answer, not an exception"

# Many blocks, without a copy in this process.
source = ctypes.create_string_buffer(os.urandom(BLOCKS * BLOCK_BYTES), BLOCKS * BLOCK_BYTES)
target = ctypes.create_string_buffer(BLOCKS * BLOCK_BYTES)
for buffer in (source, target):
    assert store.register_buffer(ctypes.addressof(buffer), len(buffer)) == 0
keys = [f"example/block/{number}" for number in range(BLOCKS)]
sizes = [BLOCK_BYTES] * BLOCKS


def addresses(buffer):
    """The address of each block of a buffer."""
    first = ctypes.addressof(buffer)
    return [first + number * BLOCK_BYTES for number in range(BLOCKS)]


stored = store.batch_put_from(keys, addresses(source), sizes)
assert stored == [0] * BLOCKS, stored
assert store.batch_is_exist(keys) == [1] * BLOCKS
read = store.batch_get_into(keys, addresses(target), sizes)
assert read == sizes, read  # bytes read per key; negative numbers are codes
assert source.raw == target.raw

# A forced removal does not wait for read leases.
removed = [store.remove(key, True) for key in ["example/greeting", *keys]]
assert removed == [0] * len(removed), removed
for buffer in (source, target):
    assert store.unregister_buffer(ctypes.addressof(buffer)) == 0
assert store.close() == 0
print(f"stored, read and compared {BLOCKS + 1} objects")
