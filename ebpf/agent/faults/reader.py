"""Reads single blocks of a disk, past the page cache, at a steady pace. Usage: reader.py DEVICE"""

import mmap
import os
import random
import sys
import time

BLOCK_BYTES = 4096
PAUSE_S = 0.02


def main():
    device = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECT)
    blocks = os.lseek(device, 0, os.SEEK_END) // BLOCK_BYTES
    buffer = mmap.mmap(-1, BLOCK_BYTES)
    while True:
        os.preadv(device, [buffer], random.randrange(blocks) * BLOCK_BYTES)
        time.sleep(PAUSE_S)


if __name__ == "__main__":
    main()
