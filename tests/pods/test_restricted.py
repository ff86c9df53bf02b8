"""Pods of today's runtimes, whose default seccomp profiles refuse io_uring."""

from test_manifests import Sglang, hands_over, reads_right, wait_for_owners, write


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
