"""LMCache 0.5.6: its Mooncake connector in two processes, and its lookup client."""

import os

import pytest

CHUNK_TOKENS = 256


@pytest.mark.parametrize("lends_memory", [True, False], ids=["lender", "client"])
@pytest.mark.parametrize("save_chunk_meta", [True, False], ids=["metadata", "zero-copy"])
def test_lmcache_reads_in_one_process_what_another_wrote(client, save_chunk_meta, lends_memory):
    writer = client(
        "lmcache_driver:write", save_chunk_meta=save_chunk_meta, lends_memory=lends_memory
    ).wait_ready()
    assert client("lmcache_driver:read", save_chunk_meta=save_chunk_meta).finish() == 13
    assert bool(writer.finish()["segment"]) == lends_memory


@pytest.mark.skipif(
    "PERIGEE_CLIENTS_CONTROL" in os.environ,
    reason="Mooncake itself ignores the name under which this client gives the master's address",
)
def test_lmcache_lookup_finds_the_longest_prefix_in_the_store(client):
    assert client("lmcache_driver:lookup").finish() == [3 * CHUNK_TOKENS, 3 * CHUNK_TOKENS]
