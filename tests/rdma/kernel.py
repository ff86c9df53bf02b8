"""The wheel on the kernel of this machine: store and engines over TCP and RDMA with the calls of SGLang and vLLM, and the agent.

Runs in a guest with the interpreter that the wheel is installed for. Exit status 1 if something that must work does not.
"""

import json
import os
import pathlib
import platform
import subprocess

from cluster import BIN, LONG_S, RPC, Cluster

NODE_HOST, CLIENT_HOST = "10.77.0.1", "10.77.0.2"
RDMA = {"MOONCAKE_PROTOCOL": "rdma", "PERIGEE_REQUIRE_RDMA": "1"}
# Objects go over the wire, not through shared memory.
WIRE = {"PERIGEE_SHARED_MEMORY": "0"}


def cluster_over(protocol):
    """A cluster whose node is asked over this protocol."""
    devices = ["--device_names=rxe0"] if protocol == "rdma" else []
    return Cluster(node=[f"--host={NODE_HOST}", "--global_segment_size=128MB", f"--protocol={protocol}", *devices])


def store(protocol):
    """One client writes, another one reads, the node between them."""
    env = WIRE | (RDMA | {"MOONCAKE_DEVICE": "rxe1"} if protocol == "rdma" else {})
    where = [f"{NODE_HOST if protocol == 'rdma' else '127.0.0.1'}:{RPC}", "P2PHANDSHAKE", "0", CLIENT_HOST, "model"]
    with cluster_over(protocol) as cluster:
        cluster.says(cluster.start("store.py", "write", *where, env=env), "written")
        cluster.says(cluster.start("store.py", "read", *where, env=env), "read")


def engines(protocol):
    """One engine writes into the memory of another one."""
    def env(device):
        return WIRE | (RDMA | {"MOONCAKE_DEVICE": device} if protocol == "rdma" else {})

    with cluster_over("tcp") as cluster:
        decode = cluster.start("engine.py", "decode", NODE_HOST, env=env("rxe2"))
        session, address = cluster.says(decode, "session")
        prefill = cluster.start("engine.py", "prefill", CLIENT_HOST, session, address, env=env("rxe3"))
        cluster.says(prefill, "sent")
        cluster.says(decode, "received")


def packets():
    """What all RDMA devices have sent."""
    counters = pathlib.Path("/sys/class/infiniband").glob("*/ports/1/hw_counters/sent_pkts")
    return sum(int(counter.read_text()) for counter in counters)


def agent():
    """Each source works or says why not; those without privilege work on every kernel."""
    explained = subprocess.run(
        [BIN / "perigee", "agent", "--explain", "--format=json"], capture_output=True, text=True, timeout=LONG_S, check=True
    )
    sources = json.loads(explained.stdout)
    for source in sources:
        why = f": {source['reason']}" if source["reason"] else ""
        print(f"   {source['name']:<12} {source['state']}{why}")
        assert source["state"] in ("on", "ready", "partly") or (source["reason"] and source["remedy"]), source
    states = {source["name"]: source["state"] for source in sources}
    assert states["interfaces"] == states["rdma_ports"] == "on", states


def main():
    print("kernel", platform.release(), flush=True)
    for part in (store, engines):
        for protocol in ("tcp", "rdma"):
            before = packets()
            part(protocol)
            if protocol == "rdma":
                assert packets() > before, f"{part.__name__}: nothing went over RDMA"
            print(f"   {part.__name__} over {protocol}: works", flush=True)
    agent()


if __name__ == "__main__":
    main()
