"""Pods of today's runtimes: io_uring refused, and no more memory than the segment asks for."""

import pytest
from pod import wait_until
from test_manifests import Sglang, hands_over, owners, reads_right, wait_for_owners, write

SEGMENT_BYTES = 300 << 20


def test_a_cache_works_where_io_uring_is_refused(play):
    cluster = play("rbg-sglang.yaml", refuses_io_uring=True)
    engines = [("sglang-backend", 0), ("sglang-backend", 1)]
    life = Sglang(play, "rbg-sglang.yaml", engines, cluster)
    wait_for_owners(life.master, life.stores)
    writer, reader = life.engines
    write(writer, "here")
    reads_right(reader, "here")


def test_an_engine_hands_over_where_io_uring_is_refused(play):
    cluster = play("rbg-vllm-disaggregated.yaml", refuses_io_uring=True)
    hands_over(cluster.start("prefill"), cluster.start("decode"))


def test_a_segment_as_large_as_its_pod_comes_up_and_serves(play):
    cluster = play("rbg-sglang.yaml")
    master = cluster.start("mooncake-master")
    size = str(SEGMENT_BYTES)
    options = {"memory_bytes": SEGMENT_BYTES, "MOONCAKE_GLOBAL_SEGMENT_SIZE": size}
    store = cluster.start("mooncake-store", ready=False, **options)
    if not store.limit.is_set():
        pytest.skip("no control group of our own here")
    cluster.wait_ready(store, "mooncake-store")
    wait_until(lambda: owners(master) == {store.address}, store.log)
    engines = [cluster.start("sglang-backend", index) for index in range(2)]
    for round in range(4):
        write(engines[0], f"round-{round}")
        reads_right(engines[1], f"round-{round}")
    assert store.is_running(), store.log()
