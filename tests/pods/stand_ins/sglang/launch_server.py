"""`python -m sglang.launch_server` of the manifests: takes their arguments, and makes SGLang's calls on command."""

import argparse
import os

import control_server
from cache_transfer import CacheTransfer
from page_store import PageStore


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model-path", required=True)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=30000)
    parser.add_argument("--enable-hierarchical-cache", action="store_true")
    parser.add_argument("--hicache-storage-backend")
    parser.add_argument("--disaggregation-mode", choices=["prefill", "decode"])
    parser.add_argument("--disaggregation-transfer-backend")
    given = parser.parse_args()
    calls = {}
    if given.enable_hierarchical_cache and given.hicache_storage_backend == "mooncake":
        calls |= PageStore().calls()
    if given.disaggregation_mode:
        assert given.disaggregation_transfer_backend == "mooncake"
        transfer = CacheTransfer(given.host, os.environ.get("MOONCAKE_PROTOCOL", "rdma"), "")
        calls |= transfer.calls()
    control_server.serve(given.port, calls)


if __name__ == "__main__":
    main()
