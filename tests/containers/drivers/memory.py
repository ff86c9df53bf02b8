"""Memory with an address, and bytes that follow from a name."""

import ctypes
import hashlib
import mmap


def pattern(name, length):
    """Bytes that no other name has."""
    return hashlib.shake_256(name.encode()).digest(length)


class Memory:
    """Pages of one length, one behind the other."""

    def __init__(self, pages, page_bytes):
        self.page_bytes = page_bytes
        self.bytes = pages * page_bytes
        self.map = mmap.mmap(-1, self.bytes)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self.map))

    def at(self, page):
        """Address of a page."""
        return self.address + page * self.page_bytes

    def page(self, page):
        """Its content."""
        return self.map[page * self.page_bytes : (page + 1) * self.page_bytes]

    def fill(self, page, content):
        """Write it."""
        self.map[page * self.page_bytes : page * self.page_bytes + len(content)] = content
