"""A weight update: tensors of mixed sizes, each with Mooncake's header, written and read in one call each."""

import math
import random
import struct

#: What a tensor's object begins with: Mooncake's `TensorMetadata`, of a flat tensor of bytes.
HEADER_BYTES = 304
MAGIC = 0x4D4F4F4E
UINT8 = 3
TENSOR_BYTES_MIN = 4 << 10
TENSOR_BYTES_MAX = 16 << 20
#: Tensors begin on such a bound in the buffer, as allocators give them out.
ALIGNMENT = 512
SEED = 1


def header(size):
    """The header of a tensor of `size` bytes."""
    start = struct.pack("<I2H2i2I2Q", MAGIC, 1, HEADER_BYTES, UINT8, 1, 0, 0, HEADER_BYTES, size)
    shape = struct.pack("<8q", size, *[-1] * 7)
    return (start + shape + shape).ljust(HEADER_BYTES, b"\0")


def sizes_of(count, total_bytes):
    """Sizes of `count` tensors, together about `total_bytes`: as many of 4 to 8 KiB as of 8 to 16 MiB."""
    random_of = random.Random(SEED)
    low, high = math.log(TENSOR_BYTES_MIN), math.log(TENSOR_BYTES_MAX)
    drawn = [math.exp(random_of.uniform(low, high)) for _ in range(count)]
    share = total_bytes / sum(drawn)
    return [max(ALIGNMENT, int(size * share)) for size in drawn]


class Weights:
    """Tensors of one update in a buffer."""

    def __init__(self, count, total_bytes):
        self.sizes = [HEADER_BYTES + size for size in sizes_of(count, total_bytes)]
        self.offsets, at = [], 0
        for size in self.sizes:
            self.offsets.append(at)
            at += -(-size // ALIGNMENT) * ALIGNMENT
        self.room = at

    @property
    def total_bytes(self):
        """Bytes of all objects."""
        return sum(self.sizes)

    def keys(self, update):
        """Names of the tensors of one update."""
        return [f"weights-{update}/layer-{number}" for number in range(len(self.sizes))]

    def rows(self, base):
        """Address of each object and of its data, and the bytes of the data."""
        for offset, size in zip(self.offsets, self.sizes):
            yield base + offset, base + offset + HEADER_BYTES, size - HEADER_BYTES
