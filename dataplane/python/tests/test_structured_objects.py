"""Structured objects: members written in chunks, read whole, in rows, into memory of the caller."""

import gc

import pytest

np = pytest.importorskip("numpy", reason="structured objects need numpy")
from structured_store import Config, FastStore, PlainStore, Pool  # noqa: E402

from mooncake.buffer_pool import BufferPool  # noqa: E402
from mooncake.structured_object_store import (  # noqa: E402
    BundleTransferPolicy,
    MooncakeBundleTransfer,
    RemoteBundleRef,
    StructuredObjectPayload,
    raw_destination,
)

STORES = [PlainStore, FastStore]


def stored(transfer, chunk_bytes=None, policy=None, **members):
    payload = StructuredObjectPayload({"kind": "test"}, members)
    return transfer.put_structured_object(payload, chunk_bytes=chunk_bytes, policy=policy)


def read(transfer, ref, **rows):
    spec = transfer.read_spec(ref)
    for name, (start, end, step) in rows.items():
        spec = spec.slice_member(name, 0, start, end, step)
    return transfer.materialize(spec).objects


@pytest.mark.parametrize("kind", STORES)
@pytest.mark.parametrize("chunk_bytes", [1, 7, 64, 1 << 20])
def test_members_come_back_as_they_were(kind, chunk_bytes):
    transfer = MooncakeBundleTransfer(kind())
    array = np.arange(24, dtype=np.int16).reshape(6, 4)
    ref = stored(transfer, chunk_bytes, array=array, raw=b"abcdefg", nothing=b"", turned=array.T)
    found = read(transfer, ref)
    assert np.array_equal(found["array"], array) and found["array"].dtype == array.dtype
    assert np.array_equal(found["turned"], array.T)
    assert found["raw"] == b"abcdefg" and found["nothing"] == b""


@pytest.mark.parametrize("kind", STORES)
@pytest.mark.parametrize("rows", [(0, 6, 1), (2, 5, 1), (1, 6, 2), (3, 3, 1), (-2, 99, 1)])
def test_a_slice_reads_these_rows(kind, rows):
    transfer = MooncakeBundleTransfer(kind())
    array = np.arange(24, dtype=np.int32).reshape(6, 4)
    ref = stored(transfer, 10, array=array)
    assert np.array_equal(read(transfer, ref, array=rows)["array"], array[slice(*rows)])


def test_a_slice_reads_no_other_bytes():
    store = FastStore()
    transfer = MooncakeBundleTransfer(store)
    ref = stored(transfer, 100, array=np.zeros((1000, 16), dtype=np.uint8))
    read(transfer, ref)
    before = store.bytes_read
    read(transfer, ref, array=(10, 20, 1))
    metadata = ref.manifest["meta"]["bytes"]
    assert store.bytes_read - before == 160 + metadata


def test_memory_of_the_caller_is_filled_where_it_is():
    transfer = MooncakeBundleTransfer(FastStore())
    array = np.arange(24, dtype=np.float32).reshape(6, 4)
    ref = stored(transfer, 20, array=array)
    spec = transfer.read_spec(ref).slice_member("array", 0, 1, 3)
    target = np.zeros((2, 4), dtype=np.float32)
    assert transfer.materialize_into(spec, {"array": target}).objects["array"] is target
    raw = np.zeros(32, dtype=np.uint8)
    into = {"array": raw_destination(raw.ctypes.data, 32, raw)}
    seen = transfer.materialize_into(spec, into).objects["array"]
    assert np.array_equal(target, array[1:3]) and np.array_equal(seen, array[1:3])
    assert raw.tobytes() == array[1:3].tobytes()


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        (np.zeros((3, 4), np.float32), "shape"),
        (np.zeros((2, 4), np.float64), "float64"),
        (np.zeros((2, 8), np.float32)[:, ::2], "C-contiguous"),
        (raw_destination(1, 31), "31 bytes, 32 are needed"),
        (bytearray(32), "array or a raw_destination"),
    ],
)
def test_a_destination_that_does_not_fit_is_refused(target, reason):
    transfer = MooncakeBundleTransfer(FastStore())
    ref = stored(transfer, array=np.zeros((2, 4), np.float32))
    with pytest.raises(ValueError, match=reason):
        transfer.materialize_into(transfer.read_spec(ref), {"array": target})


def test_a_selection_that_makes_no_sense_is_refused():
    transfer = MooncakeBundleTransfer(FastStore())
    ref = stored(transfer, array=np.zeros((2, 4)), raw=b"x")
    spec = transfer.read_spec(ref)
    with pytest.raises(ValueError, match="no members"):
        transfer.materialize(spec.select_members([]))
    with pytest.raises(KeyError, match="there are"):
        transfer.materialize(spec.select_members(["other"]))
    with pytest.raises(ValueError, match="axis=0"):
        transfer.materialize(spec.slice_member("array", 1, 0, 1))
    with pytest.raises(ValueError, match="step must be positive"):
        transfer.materialize(spec.slice_member("array", 0, 0, 1, 0))
    with pytest.raises(ValueError, match="does not support slicing"):
        transfer.materialize(spec.slice_member("raw", 0, 0, 1))
    with pytest.raises(ValueError, match="are not read"):
        transfer.materialize(spec.select_members(["raw"]).slice_member("array", 0, 0, 1))


def test_put_object_takes_a_mapping_or_one_value():
    transfer = MooncakeBundleTransfer(PlainStore())
    array = np.arange(3)
    assert np.array_equal(transfer.get_object(transfer.put_object(array)), array)
    assert transfer.get_object(transfer.put_object({"a": b"1"})) == {"a": b"1"}
    with pytest.raises(TypeError, match="Python objects"):
        transfer.put_object(np.array([None]))


@pytest.mark.parametrize("kind", STORES)
@pytest.mark.parametrize("fail_at", range(1, 6))
@pytest.mark.parametrize("mode", ["batch", "parallel"])
def test_a_put_that_fails_leaves_nothing(kind, fail_at, mode):
    store = kind(fail_at)
    transfer = MooncakeBundleTransfer(store, buffer_pool=Pool(store) if kind is FastStore else None)
    policy = BundleTransferPolicy(max_inflight_put=3, put_mode=mode)
    with pytest.raises(RuntimeError, match="-200"):
        stored(transfer, 200, policy, array=np.zeros(600, np.uint8))
    assert store.values == {}


def test_a_pool_lends_memory_for_one_chunk_and_gets_it_back():
    store = FastStore()
    pool = Pool(store)
    transfer = MooncakeBundleTransfer(store, buffer_pool=pool)
    ref = stored(transfer, 16, BundleTransferPolicy(put_mode="batch"), array=np.arange(100))
    assert (pool.lent, pool.most, store.registered) == (0, 1, {})
    found = read(transfer, ref)["array"]
    part = found[3:5]
    assert pool.lent == 1 and np.array_equal(found, np.arange(100))
    del found
    gc.collect()
    assert pool.lent == 1 and part.tolist() == [3, 4]
    transfer.release_result({"x": [part]})
    transfer.release_result(part)
    assert pool.lent == 0


@pytest.mark.parametrize("plain", [np.asarray, np.ascontiguousarray, memoryview])
def test_a_plain_view_keeps_the_memory_of_the_pool(plain):
    store = FastStore()
    pool = BufferPool(store, max_regions=1, block_on_exhaustion=False)
    transfer = MooncakeBundleTransfer(store, buffer_pool=pool)
    ref = stored(transfer, None, BundleTransferPolicy(copy_mode="copy"), array=np.arange(100))
    view = plain(read(transfer, ref)["array"])
    gc.collect()
    with pytest.raises(RuntimeError, match="exhausted"):
        pool.acquire(800)
    assert bytes(view) == np.arange(100).tobytes()
    del view
    gc.collect()
    pool.acquire(800).release()


def test_memory_of_the_pool_goes_back_without_its_lock():
    store = FastStore()
    pool = BufferPool(store)
    transfer = MooncakeBundleTransfer(store, buffer_pool=pool)
    array = read(transfer, stored(transfer, array=np.arange(100)))["array"]
    given_back = []
    pool.give_back = given_back.append
    del array
    gc.collect()
    assert given_back == [] and len(pool.dropped) == 1


def test_zero_copy_registers_the_source_and_refuses_what_cannot_be():
    store = FastStore()
    transfer = MooncakeBundleTransfer(store)
    policy = BundleTransferPolicy(copy_mode="zero_copy")
    ref = stored(transfer, 16, policy, array=np.arange(100))
    assert np.array_equal(read(transfer, ref)["array"], np.arange(100))
    assert store.registered == {}
    with pytest.raises(RuntimeError, match="zero-copy put"):
        stored(MooncakeBundleTransfer(PlainStore()), None, policy, array=np.arange(3))


def test_memory_that_the_caller_has_registered_stays_registered():
    class Strict(FastStore):
        def register_buffer(self, address, size):
            return -600 if address in self.registered else super().register_buffer(address, size)

    store = Strict()
    transfer = MooncakeBundleTransfer(store)
    ref = stored(transfer, 8, array=np.arange(10))
    target = np.zeros(10, dtype=np.int64)
    store.register_buffer(target.ctypes.data, target.nbytes)
    transfer.materialize_into(transfer.read_spec(ref), {"array": target})
    assert np.array_equal(target, np.arange(10)) and list(store.registered) == [target.ctypes.data]


@pytest.mark.parametrize("kind", STORES)
def test_a_chunk_that_is_gone_or_short_is_an_error(kind):
    store = kind()
    transfer = MooncakeBundleTransfer(store)
    ref = stored(transfer, 16, array=np.arange(10), raw=bytes(40))
    for name in ("array", "raw"):
        spec = transfer.read_spec(ref).select_members([name])
        key = ref.manifest["buffers"][name]["chunks"][1]["key"]
        whole = store.values[key]
        store.values[key] = whole[:-1]
        with pytest.raises(RuntimeError, match="expected"):
            transfer.materialize(spec)
        del store.values[key]
        with pytest.raises(RuntimeError, match="expected"):
            transfer.materialize(spec)
        store.values[key] = whole
        transfer.materialize(spec)


@pytest.mark.parametrize("kind", STORES)
def test_removing_takes_all_keys_and_says_which_stays(kind):
    store = kind()
    transfer = MooncakeBundleTransfer(store)
    ref = stored(transfer, 16, array=np.arange(10))
    stuck = ref.manifest["buffers"]["array"]["key"] + "/chunk/1"
    remove = store.remove
    store.remove = lambda key, force=False: -900 if key == stuck else remove(key, force)
    with pytest.raises(RuntimeError, match="chunk/1"):
        transfer.remove_bundle(ref)
    assert list(store.values) == [stuck]


def test_a_policy_that_means_nothing_is_refused():
    transfer = MooncakeBundleTransfer(PlainStore())
    for policy in ({"max_inflight_put": 0}, {"put_mode": "fast"}, {"copy_mode": "none"}):
        with pytest.raises(ValueError, match=next(iter(policy))):
            transfer.put_bundle(b"", {}, policy=BundleTransferPolicy(**policy))
    with pytest.raises(ValueError, match="chunk_bytes"):
        transfer.put_bundle(b"", {}, chunk_bytes=0)
    for name in ("", "a/b"):
        with pytest.raises(ValueError, match="slash"):
            transfer.put_bundle(b"", {name: b""})
        with pytest.raises(ValueError, match="slash"):
            transfer.put_bundle(b"", {}, partition=name)
    with pytest.raises(ValueError, match="key_prefix"):
        MooncakeBundleTransfer(PlainStore(), key_prefix="/")


@pytest.mark.parametrize(
    ("group", "seen"), [("g", ["g"]), (["g"], ["g"]), ([], None), (None, None)]
)
def test_one_group_is_named_for_each_key(group, seen):
    store = PlainStore()
    transfer = MooncakeBundleTransfer(store)
    config = Config(group)
    transfer.put_bundle(b"m", {"a": b"12345"}, chunk_bytes=2, config=config)
    assert [it.group_ids for it in store.configs] == [seen] * 5 and config.group_ids == group
    with pytest.raises(ValueError, match="group_ids"):
        transfer.put_bundle(b"m", {}, config=Config(["a", "b"]))


DAMAGES = {
    "version": lambda it: it.update(version=2),
    "object_id": lambda it: it.update(object_id=7),
    "manifest_key": lambda it: it.update(object_id="default/other"),
    "namespace": lambda it: it["buffers"]["a"].update(key="elsewhere/a"),
    "outside": lambda it: it["buffers"]["a"]["chunks"][0].update(key="elsewhere/a"),
    "twice": lambda it: it["buffers"]["a"]["chunks"].append(it["buffers"]["a"]["chunks"][0]),
    "add up": lambda it: it["buffers"]["a"]["chunks"][0].update(bytes=1),
    "bytes": lambda it: it["buffers"]["a"].update(bytes=-1),
    "cleanup_keys": lambda it: it.update(cleanup_keys=["elsewhere/a"]),
    "list of strings": lambda it: it.update(buffer_object_ids=[None]),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_manifest_reaches_no_other_object(damage):
    import json

    store = PlainStore()
    transfer = MooncakeBundleTransfer(store)
    ref = transfer.put_bundle(b"m", {"a": b"12345"}, chunk_bytes=5)
    manifest = json.loads(store.values[ref.manifest_key])
    DAMAGES[damage](manifest)
    store.values[ref.manifest_key] = json.dumps(manifest).encode()
    store.values["elsewhere/a"] = b"12345"
    for call in (transfer.remove_bundle, lambda it: transfer.materialize(transfer.read_spec(it))):
        with pytest.raises(ValueError):
            call({"manifest_key": ref.manifest_key})
    assert "elsewhere/a" in store.values


def test_a_manifest_that_is_none_is_an_error():
    store = PlainStore()
    transfer = MooncakeBundleTransfer(store)
    for blob, reason in ((None, "not in the store"), (b"\xff", "not JSON"), (b"[]", "JSON object")):
        store.values = {} if blob is None else {"bundle/a/b/manifest": blob}
        with pytest.raises(ValueError, match=reason):
            transfer.remove_bundle(RemoteBundleRef("bundle/a/b/manifest", {}))
