"""`python3 -m bench.live_policy PROGRAM TRACE`: hit rates of a real cluster beside those of `perigee bench policy`.

A master and a node are started, `perigee bench trace` plays the trace through them, and `perigee bench policy` plays it
without a cluster. The exit status is 1 if they differ by more than half a point.
"""

import argparse
import contextlib
import json
import pathlib
import socket
import subprocess
import sys
import tempfile
import time

#: With this block and its checksum an object takes 4 KiB.
BLOCK_BYTES = 4080
EXTENT_BYTES = 4096
POINTS_MAX = 0.5
WAIT_S = 60


def free_port():
    """A port that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def figures(command):
    """Name -> value of the figures of a run."""
    done = subprocess.run([*command, "--format=json"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}: {done.stderr}")
    return {figure["name"]: figure["value"] for figure in json.loads(done.stdout)["figures"]}


@contextlib.contextmanager
def started(command, log):
    """A process that ends with the block."""
    with pathlib.Path(log).open("w") as out, subprocess.Popen(command, stdout=out, stderr=out) as process:
        try:
            yield process
        finally:
            process.kill()


@contextlib.contextmanager
def cluster(program, policy, blocks, shards, folder):
    """A master and a node with room for so many blocks; the address of the master."""
    port = free_port()
    master = [program, "master", f"--rpc_port={port}", f"--rpc_shards={shards}", "--default_kv_lease_ttl=10ms"]
    master += ["--eviction_high_watermark_ratio=1", f"--eviction_policy={policy}", f"--metrics_port={free_port()}"]
    node = [program, "node", f"--master_server_address=127.0.0.1:{port}", "--host=127.0.0.1", "--port=0"]
    node += [f"--global_segment_size={blocks * EXTENT_BYTES}", "--metadata_server=P2PHANDSHAKE", "--enable_http_server=false"]
    with started(master, f"{folder}/master.log"), started(node, f"{folder}/node.log"):
        wait_for_a_segment(program, f"127.0.0.1:{port}")
        yield f"127.0.0.1:{port}"


def wait_for_a_segment(program, master):
    """Until the node has joined."""
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        status = subprocess.run([program, "status", master, "--format=json"], capture_output=True, text=True, check=False)
        if status.returncode == 0 and json.loads(status.stdout).get("segments"):
            return
        time.sleep(0.1)
    sys.exit(f"no node joined {master} within {WAIT_S} s")


def live(words, policy, blocks):
    """Hit rate of a cluster, in percent."""
    with tempfile.TemporaryDirectory() as folder, cluster(words.program, policy, blocks, words.shards, folder) as master:
        replay = [words.program, "bench", "trace", f"--trace={words.trace}", f"--requests={words.requests}"]
        replay += [f"--block={BLOCK_BYTES}", "--threads=1", f"--master={master}"]
        return 100 * figures(replay)["hit rate"]


def main():
    """The exit status."""
    parser = argparse.ArgumentParser(prog="python3 -m bench.live_policy")
    parser.add_argument("program")
    parser.add_argument("trace")
    parser.add_argument("--requests", type=int, default=6000)
    parser.add_argument("--pools", default="4096,16384")
    parser.add_argument("--shards", type=int, default=1)
    words = parser.parse_args()
    simulated = [words.program, "bench", "policy", f"--trace={words.trace}", f"--requests={words.requests}"]
    simulated = figures([*simulated, f"--pools={words.pools}", "--policies=lru,adaptive"])
    worst = 0.0
    print("| policy | pool, blocks | bench policy, % | cluster, % |\n|---|---|---|---|")
    for pool in words.pools.split(","):
        for policy in ("lru", "adaptive"):
            without = 100 * simulated[f"{policy}, {pool} blocks"]
            found = live(words, policy, int(pool))
            worst = max(worst, abs(found - without))
            print(f"| {policy} | {pool} | {without:.2f} | {found:.2f} |", flush=True)
    return 0 if worst <= POINTS_MAX else 1


if __name__ == "__main__":
    sys.exit(main())
