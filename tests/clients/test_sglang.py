"""SGLang 0.5.23: its own test of its Mooncake backend, and its two stores in two processes each."""

import os
import subprocess
import sys

import pytest

OWN_TEST = "sglang.srt.mem_cache.storage.mooncake_store.test_mooncake_store"
DEADLINE_SECONDS = 300


@pytest.mark.parametrize("segment_size", ["67108864", "0"], ids=["lender", "client"])
def test_sglang_passes_its_own_test(cluster, segment_size):
    ended = subprocess.run(
        [sys.executable, "-m", OWN_TEST],
        env={
            **os.environ,
            "MOONCAKE_MASTER": cluster.master_address,
            "MOONCAKE_PROTOCOL": "tcp",
            "MOONCAKE_DEVICE": "",
            "MOONCAKE_TE_META_DATA_SERVER": "P2PHANDSHAKE",
            "MOONCAKE_GLOBAL_SEGMENT_SIZE": segment_size,
            "LOCAL_HOSTNAME": "127.0.0.1",
        },
        capture_output=True,
        text=True,
        timeout=DEADLINE_SECONDS,
        check=False,
    )
    output = ended.stdout + ended.stderr
    assert ended.returncode == 0, output
    assert "All tests passed" in output, output


@pytest.mark.parametrize(
    ("is_mla", "lends_memory", "group_semantics"),
    [(False, True, True), (True, False, False)],
    ids=["mha-lender-groups", "mla-client"],
)
def test_sglang_reads_in_one_process_what_another_wrote(
    client, is_mla, lends_memory, group_semantics
):
    writer = client(
        "sglang_driver:write",
        lends_memory=lends_memory,
        is_mla=is_mla,
        group_semantics=group_semantics,
    ).wait_ready()
    assert client("sglang_driver:read", is_mla=is_mla).finish() == 11
    writer.finish()


def test_sglang_side_pools_limit_the_usable_prefix(client):
    assert client("sglang_driver:side_pools").finish() == 4


def test_sglang_works_through_the_process_of_a_node(cluster, client):
    # SGLang passes on the node's address only; the node tells its clients where the master is.
    process = client("sglang_driver:through_node", node=cluster.node_address)
    assert process.finish() == 4


def test_sglang_clear_removes_everything_once_leases_end(client):
    assert client("sglang_driver:clear").finish() == [4, 0]


def test_sglang_embedding_store_reads_what_another_process_wrote(client):
    writer = client("sglang_driver:write_embeddings").wait_ready()
    assert client("sglang_driver:read_embeddings").finish() == 6
    writer.finish()
