"""What a block's bytes must be: a function of its key, cheap to make and to check.

A value is a window of one fixed random text, at an offset that follows from the key, with the key's
digest laid over its first bytes. So no two keys share a value, and a byte of another key is noticed.
"""

import ctypes
import hashlib
import random

TEXT_SEED = 0x9E3779B9
STAMP_BYTES = 16

libc = ctypes.CDLL(None)
libc.memcmp.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
libc.memcmp.restype = ctypes.c_int


class Content:
    """Writes and checks values of up to `block_bytes`."""

    def __init__(self, block_bytes):
        # Twice the largest value leaves as many distinct windows as a value has bytes.
        self.text = random.Random(TEXT_SEED).randbytes(max(1 << 20, 2 * block_bytes))
        self.address = ctypes.cast(ctypes.c_char_p(self.text), ctypes.c_void_p).value

    def place(self, key, count):
        """Digest of the key and offset of its window of `count` bytes."""
        digest = hashlib.blake2b(key.encode(), digest_size=STAMP_BYTES + 8).digest()
        windows = len(self.text) - count
        return digest[:STAMP_BYTES], int.from_bytes(digest[STAMP_BYTES:], "little") % windows

    def fill(self, key, address, count):
        """Writes the value of `key` to `count` bytes at `address`."""
        stamp, offset = self.place(key, count)
        ctypes.memmove(address, self.address + offset, count)
        ctypes.memmove(address, stamp, min(STAMP_BYTES, count))

    def matches(self, key, address, count):
        """Whether every one of `count` bytes at `address` is the value of `key`."""
        stamp, offset = self.place(key, count)
        head = min(STAMP_BYTES, count)
        if ctypes.string_at(address, head) != stamp[:head]:
            return False
        return libc.memcmp(address + head, self.address + offset + head, count - head) == 0
