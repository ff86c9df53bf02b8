"""The wheel on the kernel of this machine: store and engines over TCP and RDMA with the calls of SGLang and vLLM, and the agent.

Runs in a guest with the interpreter that the wheel is installed for. Exit status 1 if something that must work does not.
"""

import json
import os
import pathlib
import platform
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request

BIN = pathlib.Path(sys.executable).parent
DRIVERS = pathlib.Path(__file__).resolve().parents[1] / "containers" / "drivers"
# An emulated processor does in a minute what others do in a second.
LONG_S = 300
RPC, ADMIN = 50051, 9003
NODE_HOST, CLIENT_HOST = "10.77.0.1", "10.77.0.2"
RDMA = {"MOONCAKE_PROTOCOL": "rdma", "PERIGEE_REQUIRE_RDMA": "1"}
# Objects go over the wire, not through shared memory.
WIRE = {"PERIGEE_SHARED_MEMORY": "0"}


class Cluster:
    """A master, a node and whatever else is started, each with a log."""

    def __init__(self, protocol):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="kernel-", dir="/run"))
        self.processes = []
        self.start("mooncake_master", f"--rpc_port={RPC}", f"--metrics_port={ADMIN}")
        self.wait(lambda: self.asked("/health"), "master")
        devices = ["--device_names=rxe0"] if protocol == "rdma" else []
        self.start(
            "mooncake_client", f"--master_server_address=127.0.0.1:{RPC}", "--metadata_server=P2PHANDSHAKE",
            f"--host={NODE_HOST}", "--global_segment_size=128MB", f"--protocol={protocol}", *devices,
        )
        self.wait(lambda: self.asked("/get_all_segments"), "segment")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process, _ in reversed(self.processes):
            process.send_signal(signal.SIGTERM)
        for process, _ in self.processes:
            process.wait(timeout=LONG_S)

    @staticmethod
    def asked(path):
        """The master's answer, or nothing."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{ADMIN}{path}", timeout=10) as answer:
                return answer.read()
        except OSError:
            return None

    def start(self, program, *words, env=None):
        """Start a program of the wheel, or a driver."""
        log = self.folder / f"{len(self.processes)}-{program}.log"
        command = [sys.executable, DRIVERS / program] if program.endswith(".py") else [BIN / program]
        with log.open("wb") as out:
            process = subprocess.Popen([*command, *words], stdout=out, stderr=out, env=os.environ | (env or {}))
        self.processes.append((process, log))
        return process, log

    def wait(self, condition, what):
        """Wait for a condition; show all logs if it does not come."""
        deadline = time.monotonic() + LONG_S
        while not (found := condition()):
            ended = [log for process, log in self.processes if process.poll() not in (None, 0)]
            if ended or time.monotonic() > deadline:
                for _, log in self.processes:
                    print(f"--- {log.name}\n{log.read_text()[-3000:]}")
                raise SystemExit(f"kernel: no {what}")
            time.sleep(0.2)
        return found

    def says(self, started, word):
        """Wait for a line that begins so, and return its other words."""
        process, log = started

        def line():
            return next((line.split()[1:] for line in log.read_text().splitlines() if line.startswith(word)), None)

        return self.wait(line, f"{word!r} in {log.name}")


def store(protocol):
    """One client writes, another one reads, the node between them."""
    env = WIRE | (RDMA | {"MOONCAKE_DEVICE": "rxe1"} if protocol == "rdma" else {})
    where = [f"{NODE_HOST if protocol == 'rdma' else '127.0.0.1'}:{RPC}", "P2PHANDSHAKE", "0", CLIENT_HOST, "model"]
    with Cluster(protocol) as cluster:
        cluster.says(cluster.start("store.py", "write", *where, env=env), "written")
        cluster.says(cluster.start("store.py", "read", *where, env=env), "read")


def engines(protocol):
    """One engine writes into the memory of another one."""
    def env(device):
        return WIRE | (RDMA | {"MOONCAKE_DEVICE": device} if protocol == "rdma" else {})

    with Cluster("tcp") as cluster:
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
