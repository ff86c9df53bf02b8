"""SGLang's own test of its Mooncake backend, as it comes in SGLang's package."""

import os
import subprocess
import sys

import pytest

from bench.demo.cluster import Cluster

OWN_TEST = "sglang.srt.mem_cache.storage.mooncake_store.test_mooncake_store"
DEADLINE_SECONDS = 300
POOL_BYTES = 256 << 20


@pytest.fixture
def cluster(tmp_path):
    running = Cluster(2, POOL_BYTES // 2, str(tmp_path))
    yield running
    assert running.stop() == []


def environment(cluster, **more):
    return {
        **os.environ,
        "MOONCAKE_MASTER": cluster.master_address,
        "MOONCAKE_PROTOCOL": "tcp",
        "MOONCAKE_DEVICE": "",
        "MOONCAKE_TE_META_DATA_SERVER": "P2PHANDSHAKE",
        "LOCAL_HOSTNAME": "127.0.0.1",
        **more,
    }


@pytest.mark.parametrize("segment_size", ["67108864", "0"])
def test_sglang_passes_its_own_test(cluster, segment_size):
    """With memory lent by the client itself too, and as a client only."""
    ended = subprocess.run(
        [sys.executable, "-m", OWN_TEST],
        env=environment(cluster, MOONCAKE_GLOBAL_SEGMENT_SIZE=segment_size),
        capture_output=True,
        text=True,
        timeout=DEADLINE_SECONDS,
        check=False,
    )
    output = ended.stdout + ended.stderr
    assert ended.returncode == 0, output
    assert "All tests passed" in output, output
