"""Structured objects in a real cluster: arrays, rows, pools, groups, removal."""

import pytest

np = pytest.importorskip("numpy", reason="structured objects need numpy")
from mooncake.store import BufferPool, ReplicateConfig  # noqa: E402
from mooncake.structured_object_store import (  # noqa: E402
    BundleTransferPolicy,
    MooncakeBundleTransfer,
    export_ref,
)

pytestmark = pytest.mark.cluster
GRID = np.arange(1 << 16, dtype=np.int64).reshape(256, 256)
TEXT = np.array([f"row {row}" if row % 7 else None for row in range(256)], dtype=object)
BATCH = {"batch": {"grid": GRID}, "non_tensor_batch": {"text": TEXT}, "meta_info": {"step": 1}}
ROWS = [255, 0, 17, 18]
POLICIES = {
    "plain": BundleTransferPolicy(),
    "copy": BundleTransferPolicy(copy_mode="copy"),
    "parallel": BundleTransferPolicy(max_inflight_put=4, put_mode="parallel"),
}


@pytest.mark.parametrize("pooled", [False, True])
@pytest.mark.parametrize("policy", POLICIES)
def test_a_batch_is_read_by_another_reader(store, pooled, policy):
    pool = BufferPool(store) if pooled else None
    writer = MooncakeBundleTransfer(store, "test", 1 << 16, pool)
    ref = writer.put_dataproto(BATCH, policy=POLICIES[policy])
    reader = MooncakeBundleTransfer(store, "test", buffer_pool=pool)
    found = reader.get_dataproto(export_ref(ref))
    some = reader.get_dataproto(export_ref(ref), rows=ROWS)
    assert np.array_equal(found["batch"]["grid"], GRID)
    assert np.array_equal(some["batch"]["grid"], GRID[ROWS])
    assert some["non_tensor_batch"]["text"].tolist() == TEXT[ROWS].tolist()
    reader.release_result([found, some])
    writer.cleanup_dataproto(ref)
    assert store.remove_all(True) == 0
    if pool is not None:
        del found, some
        pool.close()


def test_a_zero_copy_put_reads_the_array_where_it_is(store):
    transfer = MooncakeBundleTransfer(store)
    policy = BundleTransferPolicy(copy_mode="zero_copy")
    ref = transfer.put_object({"grid": GRID}, policy=policy)
    assert np.array_equal(transfer.get_object(ref)["grid"], GRID)


def test_the_callers_configuration_is_used_and_not_changed(store):
    config = ReplicateConfig()
    config.group_ids = ["mine"]
    transfer = MooncakeBundleTransfer(store)
    ref = transfer.put_dataproto(BATCH, config=config, chunk_bytes=1 << 17)
    assert config.group_ids == ["mine"] and ref._storage_group_id == "mine"
    assert np.array_equal(transfer.get_dataproto(ref)["batch"]["grid"], GRID)


def test_a_batch_that_is_gone_is_an_error(store):
    transfer = MooncakeBundleTransfer(store)
    handle = export_ref(transfer.put_dataproto(BATCH))
    transfer.cleanup_dataproto(handle)
    with pytest.raises(ValueError, match="not in the store"):
        transfer.get_dataproto(handle)
