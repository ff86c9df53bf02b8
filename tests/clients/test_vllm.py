"""vLLM 0.33.0: its store connector's worker and its embedding store, each in two processes."""

import pytest

BLOCK_TOKENS = 16
SMALL_POOL_BYTES = 32 << 20


@pytest.mark.parametrize(
    ("lends_memory", "group_semantics"),
    [(True, True), (False, False)],
    ids=["embedded-groups", "standalone"],
)
def test_vllm_worker_loads_what_another_worker_saved(client, lends_memory, group_semantics):
    writer = client(
        "vllm_worker_driver:write", lends_memory=lends_memory, group_semantics=group_semantics
    ).wait_ready()
    assert client("vllm_worker_driver:read").finish() == 10
    writer.finish()


def test_vllm_worker_reset_empties_the_store(client):
    assert client("vllm_worker_driver:reset").finish() == [8 * BLOCK_TOKENS, 0]


@pytest.mark.parametrize("cluster", [SMALL_POOL_BYTES], indirect=True, ids=["small-pool"])
def test_vllm_worker_learns_that_space_is_missing(client):
    client("vllm_worker_driver:pressure", pool_bytes=SMALL_POOL_BYTES).finish()


@pytest.mark.parametrize("lends_memory", [True, False], ids=["embedded", "standalone"])
def test_vllm_embedding_client_loads_what_another_stored(client, lends_memory):
    writer = client("vllm_embedding_driver:write", lends_memory=lends_memory).wait_ready()
    assert client("vllm_embedding_driver:read").finish() == 11
    writer.finish()
