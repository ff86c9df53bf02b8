"""Memory shared between processes with `SharedSegment`."""

import ctypes
import mmap
import os
import subprocess
import sys

import pytest

from mooncake.engine import SharedSegment

SIZE = 3 * mmap.PAGESIZE
TIMEOUT_S = 60
READER = """
import ctypes, sys
from mooncake.engine import SharedSegment
mine, blob = SharedSegment.create("kv", int(sys.argv[1]), 2, 1, 0)
print(blob.hex(), flush=True)
mine.complete([bytes.fromhex(sys.argv[2]), blob])
print(ctypes.string_at(mine.base_addr(), 5).hex(), flush=True)
ctypes.memmove(mine.base_addr() + 100, b"reader", 6)
"""


def pair(**changed):
    arguments = {"name": "kv", "size": SIZE, "world_size": 2, "owner_rank": 0, **changed}
    return SharedSegment.create(**arguments, rank_id=0), SharedSegment.create(
        **arguments, rank_id=1
    )


def test_ranks_see_the_same_bytes():
    (owner, first), (other, second) = pair()
    assert owner.size() == SIZE and not owner.ready()
    for segment in (owner, other):
        segment.complete([first, second])
        assert segment.ready()
    assert owner.base_addr() != other.base_addr()
    ctypes.memmove(owner.base_addr() + 7, b"bytes", 5)
    assert ctypes.string_at(other.base_addr() + 7, 5) == b"bytes"


def test_another_process_sees_the_bytes_and_leaves_nothing_behind():
    owner, blob = SharedSegment.create("kv", SIZE, 2, 0)
    ctypes.memmove(owner.base_addr(), b"owner", 5)
    before = set(os.listdir("/dev/shm"))
    child = subprocess.run(
        [sys.executable, "-P", "-c", READER, str(SIZE), blob.hex()],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    assert child.returncode == 0, child.stderr
    second, seen = child.stdout.split()
    owner.complete([blob, bytes.fromhex(second)])
    assert bytes.fromhex(seen) == b"owner"
    assert ctypes.string_at(owner.base_addr() + 100, 6) == b"reader"
    assert set(os.listdir("/dev/shm")) == before


def test_size_is_rounded_up_to_pages():
    segment, blob = SharedSegment.create("one", 1, 1, 0)
    segment.complete([blob])
    assert segment.size() == mmap.PAGESIZE
    assert ctypes.string_at(segment.base_addr(), mmap.PAGESIZE) == bytes(mmap.PAGESIZE)


@pytest.mark.parametrize("changed", [{"name": "other"}, {"size": SIZE + 1}])
def test_ranks_that_declare_differently_do_not_come_together(changed):
    (owner, first), _ = pair()
    _, (other, second) = pair(**changed)
    for segment in (owner, other):
        with pytest.raises(RuntimeError, match="Rank"):
            segment.complete([first, second])
    assert not other.ready() and other.base_addr() == 0


def test_blobs_must_be_complete_and_whole():
    (owner, first), (other, second) = pair()
    for blobs in ([first], [first, second[:-1]], [second, first], [first, bytes(len(second))]):
        with pytest.raises(RuntimeError):
            other.complete(blobs)


def test_owner_that_is_gone_is_an_error():
    (owner, first), (other, second) = pair()
    del owner
    with pytest.raises(RuntimeError):
        other.complete([first, second])


@pytest.mark.parametrize(
    "changed",
    [
        {"size": 0},
        {"size": 1 << 60},
        {"rank_id": 2},
        {"owner_rank": 2},
        {"mmap": False},
        {"host_register": True},
    ],
)
def test_what_cannot_be_shared_is_refused(changed):
    arguments = {"name": "kv", "size": SIZE, "world_size": 2, "rank_id": 0, **changed}
    with pytest.raises(RuntimeError):
        SharedSegment.create(**arguments)


def test_support_is_reported():
    assert SharedSegment.supported() and SharedSegment.supported(True, False)
    assert not SharedSegment.supported(mmap=False)
    assert not SharedSegment.supported(host_register=True)
    with pytest.raises(TypeError):
        SharedSegment()
