"""`vllm serve` of the manifests: takes their arguments, and makes the calls of vLLM's connectors on command."""

import argparse
import json
import os
import socket

import control_server
from cache_transfer import CacheTransfer


def own_address():
    """As vLLM finds it: the address that the host's name stands for."""
    return os.environ.get("VLLM_HOST_IP") or socket.gethostbyname(socket.gethostname())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("command", choices=["serve"])
    parser.add_argument("model")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--tensor-parallel-size", type=int, default=1)
    parser.add_argument("--kv-transfer-config", type=json.loads, required=True)
    given = parser.parse_args()
    connector = given.kv_transfer_config["kv_connector"]
    if connector == "MooncakeConnector":
        # Its protocol's default is rdma, on hosts without a card, too.
        calls = CacheTransfer(own_address(), "rdma", "").calls()
    elif connector == "MooncakeStoreConnector":
        from block_store import BlockStore

        calls = BlockStore(own_address()).calls()
    else:
        assert connector == "LMCacheConnectorV1", connector
        from chunk_store import ChunkStore

        calls = ChunkStore().calls()
    control_server.serve(given.port, calls)


if __name__ == "__main__":
    main()
