"""The transfer engine under SGLang 0.5.23, vLLM 0.33.0 and LMCache 0.5.6, each in two processes."""

import pytest

#: SGLang takes the protocol from its environment; it means RDMA by default.
SGLANG = {"MOONCAKE_PROTOCOL": "tcp", "MC_FORCE_TCP": "1"}

PAIRS = {
    "sglang": ("sglang_engine_driver:decode", "sglang_engine_driver:prefill", SGLANG, 31),
    "vllm-encoder": (
        "vllm_engine_driver:encoder_consumer",
        "vllm_engine_driver:encoder_producer",
        {},
        16,
    ),
    "vllm-connector": ("vllm_engine_driver:decode", "vllm_engine_driver:prefill", {}, 4),
    "lmcache": ("lmcache_engine_driver:owner", "lmcache_engine_driver:reader", {}, 32),
}


@pytest.mark.parametrize("name", PAIRS)
def test_engine_moves_what_the_client_asks_for(process, name):
    waiting, moving, environment, count = PAIRS[name]
    peer = process(waiting, environment).wait_ready()
    assert process(moving, environment, **peer.said).finish() == count
    peer.finish()
