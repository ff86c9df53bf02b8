"""`BufferPool`: reuse, bounds, waiting, and memory that is never shared by two leases."""

import ctypes
import threading

import pytest
from fake_store import FakeStore

from mooncake.buffer_pool import BufferLeaseView, BufferPool, RegisteredBufferPool
from mooncake.store import BufferPool as StoreBufferPool

MIB = 1 << 20


def test_names_are_the_same_class():
    assert BufferPool is RegisteredBufferPool is StoreBufferPool


def test_lease_is_registered_aligned_and_writable():
    store = FakeStore()
    with BufferPool(store, alignment=MIB) as pool, pool.acquire(100_000) as lease:
        assert lease.size == 100_000 and lease.ptr % MIB == 0
        assert store.registered[lease.ptr] >= lease.size
        lease.buffer[:3] = b"abc"
        assert len(lease.buffer) == 100_000
        assert ctypes.string_at(lease.ptr, 3) == b"abc"
    assert store.registered == {}


def test_released_buffers_are_reused():
    pool = BufferPool(FakeStore())
    with pool.buffer(1000) as lease:
        address = lease.ptr
    with pool.buffer(60_000) as lease:
        assert lease.ptr == address


def test_buffers_on_lease_are_never_shared():
    pool = BufferPool(FakeStore())
    leases = [pool.acquire(1000) for _ in range(10)]
    assert len({lease.ptr for lease in leases}) == 10


def test_released_lease_cannot_be_used():
    lease = BufferPool(FakeStore()).acquire(10)
    lease.release()
    lease.release()
    for name in ("ptr", "buffer"):
        with pytest.raises(RuntimeError, match="released"):
            getattr(lease, name)


def test_release_refuses_while_a_view_shows_the_memory():
    pool = BufferPool(FakeStore())
    lease = pool.acquire(1000)
    part = lease.buffer[:10]
    with pytest.raises(RuntimeError, match="exported views"):
        lease.release()
    part[:3] = b"abc"
    assert ctypes.string_at(lease.ptr, 3) == b"abc"
    del part
    lease.release()


def test_a_view_says_whose_bytes_it_shows():
    lease = BufferPool(FakeStore()).acquire(10)
    assert isinstance(lease.buffer.obj, BufferLeaseView)
    assert len(lease.buffer.obj.buffer) == 10


def test_exhausted_pool_raises_without_block_and_times_out_with_it():
    pool = BufferPool(FakeStore(), max_bytes=2 * MIB, max_size_class=MIB)
    leases = [pool.acquire(MIB), pool.acquire(MIB)]
    with pytest.raises(RuntimeError, match="exhausted"):
        pool.acquire(1, block=False)
    with pytest.raises(RuntimeError, match="[Tt]imed out"):
        pool.acquire(1, timeout=0)
    leases[0].release()
    assert pool.acquire(1, block=False).size == 1


def test_number_of_regions_is_bounded():
    pool = BufferPool(FakeStore(), max_regions=1, block_on_exhaustion=False)
    with pool.acquire(10):
        with pytest.raises(RuntimeError, match="exhausted"):
            pool.acquire(10)


def test_waiting_acquire_gets_a_released_buffer():
    pool = BufferPool(FakeStore(), max_regions=1)
    first, got = pool.acquire(10), []
    thread = threading.Thread(target=lambda: got.append(pool.acquire(10, timeout=30)))
    thread.start()
    first.release()
    thread.join(30)
    assert len(got) == 1


def test_prewarm_makes_buffers_ahead():
    store = FakeStore()
    with BufferPool(store, prewarm_size=1000, prewarm_count=3):
        assert len(store.registered) == 3


@pytest.mark.parametrize("size", [-1, 2 * MIB, (1 << 64) - 1])
def test_impossible_sizes_are_refused(size):
    with pytest.raises(RuntimeError, match="size"):
        BufferPool(FakeStore(), max_bytes=MIB).acquire(size)


def test_a_buffer_above_the_largest_class_is_made_for_its_lease():
    store = FakeStore()
    pool = BufferPool(store, max_size_class=MIB)
    lease = pool.acquire(MIB + 1)
    assert lease.size == len(lease.buffer) == MIB + 1
    lease.release()
    assert store.registered == {}


def test_close_refuses_while_leases_are_active():
    store = FakeStore()
    pool = BufferPool(store)
    lease = pool.acquire(10)
    with pytest.raises(RuntimeError, match="active leases"):
        pool.close()
    lease.release()
    pool.close()
    assert store.registered == {}


def test_leases_that_are_dropped_give_their_buffers_back():
    store = FakeStore()
    pool = BufferPool(store, max_bytes=2 * 65536)
    for _ in range(10):
        pool.acquire(65536, timeout=60).buffer[:1] = b"x"
    assert len(store.registered) <= 2
    pool.close()
    assert store.registered == {}


def test_waiting_acquire_gets_a_dropped_buffer():
    pool = BufferPool(FakeStore(), max_bytes=65536)
    held = [pool.acquire(1000)]
    got = []
    waiter = threading.Thread(target=lambda: got.append(pool.acquire(1000, timeout=60)))
    waiter.start()
    held.clear()
    waiter.join(60)
    assert len(got) == 1


def test_a_view_outlives_its_dropped_lease_and_keeps_its_memory():
    store = FakeStore()
    pool = BufferPool(store)
    lease = pool.acquire(1000)
    address, view = lease.ptr, lease.buffer[:10]
    del lease
    other = pool.acquire(1000)
    assert other.ptr != address
    assert address not in store.registered
    view[:3] = b"abc"
    assert ctypes.string_at(address, 3) == b"abc"


def test_a_dropped_pool_leaves_nothing_registered():
    store = FakeStore()
    pool = BufferPool(store, prewarm_size=1000, prewarm_count=3)
    assert len(store.registered) == 3
    del pool
    assert store.registered == {}


def test_a_lease_of_nothing_is_a_lease():
    with BufferPool(FakeStore()).acquire(0) as lease:
        assert lease.size == len(lease.buffer) == 0


def test_a_pool_needs_a_store():
    with pytest.raises(RuntimeError):
        BufferPool(None)


@pytest.mark.parametrize("arguments", [{"alignment": 3}, {"max_bytes": -1}, {"min_size_class": 0}])
def test_impossible_pools_are_refused(arguments):
    with pytest.raises(RuntimeError, match=next(iter(arguments))):
        BufferPool(FakeStore(), **arguments)


def test_failed_registration_is_an_error_and_frees_the_memory():
    store = FakeStore()
    store.register_buffer = lambda *_: -600
    with pytest.raises(RuntimeError, match="-600"):
        BufferPool(store).acquire(10)


def test_closed_pool_refuses_and_late_releases_unregister():
    store = FakeStore()
    with BufferPool(store) as pool:
        lease = pool.acquire(10)
    assert len(store.registered) == 1
    lease.release()
    assert store.registered == {}
    with pytest.raises(RuntimeError, match="closed"):
        pool.acquire(10)
