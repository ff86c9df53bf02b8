"""Calls before `setup` and after `close` answer codes; wrong types raise `TypeError`."""

import traceback
from random import Random

import pytest

from mooncake.store import (
    MooncakeDistributedStore,
    MooncakeHostMemAllocator,
    ReplicateConfig,
    bind_to_numa_node,
    get_alloc_func_addr,
    get_free_func_addr,
)

REFUSED = -600

CALLS = [
    ("put", ("k", b"v"), REFUSED),
    ("put_parts", ("k", b"v"), REFUSED),
    ("put_parts", ("k",), REFUSED),
    ("put_batch", (["k"], [b"v"]), REFUSED),
    ("upsert", ("k", b"v"), REFUSED),
    ("upsert_parts", ("k", b"v"), REFUSED),
    ("upsert_batch", (["k"], [b"v"]), REFUSED),
    ("put_from", ("k", 4096, 1), REFUSED),
    ("upsert_from", ("k", 4096, 1), REFUSED),
    ("put_from_with_metadata", ("k", 4096, 4096, 1, 1), REFUSED),
    ("batch_put_from", (["k", "l"], [4096, 4096], [1, 1]), [REFUSED, REFUSED]),
    ("batch_upsert_from", (["k"], [4096], [1]), [REFUSED]),
    ("batch_put_from_multi_buffers", (["k"], [[4096]], [[1]]), [REFUSED]),
    ("get", ("k",), b""),
    ("get_batch", (["k", "l"],), [b"", b""]),
    ("get_buffer", ("k",), None),
    ("batch_get_buffer", (["k"],), [None]),
    ("get_into", ("k", 4096, 1), REFUSED),
    ("batch_get_into", (["k"], [4096], [1]), [REFUSED]),
    ("batch_get_into_multi_buffers", (["k"], [[4096]], [[1]]), [REFUSED]),
    ("get_into_ranges", ([4096], [["k"]], [[[0]]], [[[0]]], [[[1]]]), [[[REFUSED]]]),
    ("batch_get_session_start", (["k"],), [REFUSED]),
    ("batch_get_into_multi_buffer_ranges", (["k"], [[4096]], [[1]], [[0]]), [REFUSED]),
    ("batch_get_session_end", (["k"],), REFUSED),
    ("batch_put_session_start", (["k"], [1]), [REFUSED]),
    ("batch_put_from_multi_buffer_ranges", (["k"], [[4096]], [[1]], [[0]]), [REFUSED]),
    ("batch_put_session_end", (["k"],), [REFUSED]),
    ("batch_put_session_revoke", (["k"],), [REFUSED]),
    ("is_exist", ("k",), REFUSED),
    ("batch_is_exist", (["k", "l"],), [REFUSED, REFUSED]),
    ("get_size", ("k",), REFUSED),
    ("remove", ("k",), REFUSED),
    ("batch_remove", (["k"],), [REFUSED]),
    ("remove_by_regex", ("k",), REFUSED),
    ("remove_all", (), REFUSED),
    ("get_replica_desc", ("k",), []),
    ("batch_get_replica_desc", (["k"],), {}),
    ("batch_replica_clear", (["k"],), []),
    ("register_buffer", (4096, 1), REFUSED),
    ("unregister_buffer", (4096,), REFUSED),
    ("alloc_from_mem_pool", (1,), 0),
    ("mount_segment", ("/nowhere", 1), {"ret": REFUSED, "segment_ids": []}),
    ("allocate_and_mount_segment", (1,), {"ret": REFUSED, "segment_ids": []}),
    ("unmount_segment", (["00"],), REFUSED),
    ("unmount_and_free_segment", (["00"],), REFUSED),
    ("unmount_local_disk_segment", (), REFUSED),
    ("has_disks", (), False),
    ("save_to_disks", (1,), None),
    ("get_hostname", (), ""),
    ("health_check", (), 1),
    ("close", (), 0),
    ("create_copy_task", ("k", ["s"]), ((0, 0), REFUSED)),
    ("create_move_task", ("k", "s", "t"), ((0, 0), REFUSED)),
    ("query_task", ((1, 2),), (None, REFUSED)),
]

WRONG_TYPES = [
    ("put", (1, b"v"), "key"),
    ("put", ("k", "text"), "value"),
    ("put", ("k", b"v", 3), "config"),
    ("put_from", ("k", -1, 1), "buffer_ptr"),
    ("put_from", ("k", 4096, 1 << 64), "size"),
    ("put_from", ("k", 4096, 1.5), "size"),
    ("put_batch", (["k"], ["text"]), "values"),
    ("batch_put_from", ("k", [1], [1]), "keys"),
    ("batch_put_from", (["k"], [-1], [1]), "buffer_ptrs"),
    ("batch_put_from", (["k"], [1], [None]), "sizes"),
    ("batch_get_into", ([1], [1], [1]), "keys"),
    ("batch_get_into_multi_buffers", (["k"], [1], [[1]]), "all_buffer_ptrs"),
    ("batch_is_exist", ("key",), "keys"),
    ("get", (None,), "key"),
    ("remove", ("k", "yes"), "force"),
    ("register_buffer", (b"memory", 1), "buffer_ptr"),
    ("create_copy_task", ("k", "segment"), "targets"),
    ("create_move_task", ("k", "segment", None), "target"),
    ("query_task", (5,), "task_id"),
    ("query_task", ((-1, 2),), "task_id"),
    ("query_task", ((1, 2, 3),), "task_id"),
]


@pytest.mark.parametrize(("method", "args", "expected"), CALLS)
def test_call_before_setup_answers_a_code(method, args, expected):
    result = getattr(MooncakeDistributedStore(), method)(*args)
    assert result == expected
    if isinstance(result, list):
        assert type(result) is list


@pytest.mark.parametrize(("method", "args", "name"), WRONG_TYPES)
def test_wrong_type_raises_and_names_the_argument(method, args, name):
    with pytest.raises(TypeError) as raised:
        getattr(MooncakeDistributedStore(), method)(*args)
    assert f"'{name}'" in "".join(traceback.format_exception_only(raised.value))


@pytest.mark.parametrize("key", ["\ud800", b"\xff", 1, None, ["k"]])
def test_key_that_is_no_text_raises_a_type_error(key):
    store = MooncakeDistributedStore()
    for call in (store.get, store.is_exist, store.get_size, store.get_buffer):
        with pytest.raises(TypeError, match="key"):
            call(key)
    with pytest.raises(TypeError, match="key"):
        store.batch_is_exist(["k", key])


def test_unknown_keyword_is_named():
    with pytest.raises(TypeError, match="no_such"):
        MooncakeDistributedStore().put("k", b"v", no_such=1)


def test_strided_buffer_is_refused_with_advice():
    with pytest.raises(TypeError, match="contiguous"):
        MooncakeDistributedStore().put("k", memoryview(b"abcdef")[::2])


def test_storage_this_build_lacks_is_refused():
    config = ReplicateConfig()
    config.nof_replica_num = 1
    assert MooncakeDistributedStore().put("k", b"v", config) == -1012


def test_host_memory_is_zero_aligned_and_freed_once():
    import ctypes

    allocator = MooncakeHostMemAllocator()
    address = allocator.alloc(100_000)
    assert address and address % 4096 == 0
    assert ctypes.string_at(address, 100_000) == bytes(100_000)
    assert allocator.free(address) == 0
    assert allocator.free(address) == -600
    assert allocator.alloc(0) == 0


def test_allocator_functions_can_be_called_through_their_addresses():
    import ctypes

    allocate = ctypes.CFUNCTYPE(
        ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p
    )(get_alloc_func_addr())
    free = ctypes.CFUNCTYPE(
        None, ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p
    )(get_free_func_addr())
    address = allocate(5000, 0, None)
    assert address and ctypes.string_at(address, 5000) == bytes(5000)
    free(address, 5000, 0, None)
    assert MooncakeHostMemAllocator().free(address) == -600
    assert not allocate(0, 0, None)


@pytest.mark.parametrize("node", [-1, 999, 1 << 40])
def test_binding_to_a_numa_node_that_is_not_there_only_warns(node, caplog):
    assert bind_to_numa_node(node) is None
    assert f"NUMA node {node}" in caplog.text


JUNK = [None, 0, -1, 1 << 70, 0.5, "", "k", "\ud800", b"", b"v"]
JUNK += [[], [None], ["k"], [[]], [[1]], {}, object()]


# These two may reach for a master with arguments that happen to make sense.
CONNECTING = {"init_all", "setup_dummy"}


@pytest.mark.parametrize(
    "method",
    [it for it in dir(MooncakeDistributedStore) if not it.startswith("_") and it not in CONNECTING],
)
def test_arguments_without_sense_raise_type_errors_or_answer(method):
    """Whatever is passed, the interpreter goes on; addresses are never touched without a store."""
    store = MooncakeDistributedStore()
    random = Random(method)
    for _ in range(300):
        arguments = random.choices(JUNK, k=random.randrange(8))
        try:
            getattr(store, method)(*arguments)
        except (TypeError, ValueError, AttributeError, ImportError, OSError):
            pass
    assert store.health_check() == 1
