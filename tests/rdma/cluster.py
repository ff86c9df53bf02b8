"""A master, a node and programs beside them in a guest, from the wheel of the interpreter that runs this."""

import os
import pathlib
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


class Cluster:
    """A master, a node and whatever else is started, each with a log."""

    def __init__(self, master=(), node=()):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="cluster-", dir="/run"))
        self.processes = []
        self.start("mooncake_master", f"--rpc_port={RPC}", f"--metrics_port={ADMIN}", *master)
        self.wait(lambda: self.asked("/health"), "master")
        self.node = self.start(
            "mooncake_client", f"--master_server_address=127.0.0.1:{RPC}", "--metadata_server=P2PHANDSHAKE", *node
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

    def metric(self, name):
        """Sum of a metric of the master."""
        lines = (self.asked("/metrics") or b"").decode().splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.split(" ")[0].split("{")[0] == name)

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
                raise SystemExit(f"cluster: no {what}")
            time.sleep(0.2)
        return found

    def says(self, started, word):
        """Wait for a line that begins so, and return its other words."""
        process, log = started

        def line():
            return next((line.split()[1:] for line in log.read_text().splitlines() if line.startswith(word)), None)

        return self.wait(line, f"{word!r} in {log.name}")
