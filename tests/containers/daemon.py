"""A Docker daemon of the tests' own, with an image made by the project's Dockerfile."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
CACHE = Path(os.environ.get("PERIGEE_CONTAINERS_CACHE") or ROOT / "target" / "containers")
BASE, IMAGE = "perigee-test-base", "perigee-test"
TARGET = Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target")
START_S = 60
COMMAND_S = 240


def until(condition, what, deadline_s):
    """Wait for a condition and return its value; `what` may be a function that says more."""
    deadline = time.monotonic() + deadline_s
    while not (found := condition()):
        assert time.monotonic() < deadline, f"no {what() if callable(what) else what} in {deadline_s} s"
        time.sleep(0.1)
    return found


class Daemon:
    """Use as a context: leaving it ends the daemon, its containers and what they have written."""

    def __init__(self):
        # Short, because sockets lie there.
        self.folder = Path(tempfile.mkdtemp(prefix="perigee-ct-"))
        self.socket = f"unix://{self.folder}/docker.sock"
        self.containers = []
        self.process = None

    def __enter__(self):
        # In a network namespace of its own: bridges and published ports are not the host's.
        alone = ["unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "dockerd"]
        command = [
            *alone, "dockerd", "--host", self.socket, "--data-root", self.folder / "data", "--exec-root", self.folder / "exec",
            "--pidfile", self.folder / "pid", "--iptables=false", "--bridge=none",
        ]
        with (self.folder / "log").open("wb") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
        until(lambda: self.answers() or self.process.poll() is not None, "answer of dockerd", START_S)
        assert self.process.poll() is None, (self.folder / "log").read_text()[-2000:]
        return self

    def __exit__(self, *_):
        if self.containers:
            subprocess.run(["docker", "-H", self.socket, "rm", "-f", *self.containers], capture_output=True, check=False)
        self.process.terminate()
        try:
            self.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def answers(self):
        """Whether the daemon serves."""
        asked = subprocess.run(["docker", "-H", self.socket, "version"], capture_output=True, check=False)
        return asked.returncode == 0

    def docker(self, *words, check=True):
        """Run a docker command and return what it printed, on both channels."""
        command = ["docker", "-H", self.socket, *(str(word) for word in words)]
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=COMMAND_S, check=False
        )
        assert not check or done.returncode == 0, f"docker {' '.join(command[3:])}: {done.stdout}"
        return done.stdout.strip()

    def build(self):
        """Make the image, as a user does, but from the base and the wheels that lie here."""
        self.docker("import", CACHE / "base.tar", BASE)
        self.make(IMAGE, ROOT / "tools/deploy/Dockerfile", CACHE / "context", BASE=BASE, PIP_NO_INDEX=1)

    def make(self, image, dockerfile, context, **arguments):
        """Build an image without a network."""
        given = [word for name, value in arguments.items() for word in ("--build-arg", f"{name}={value}")]
        self.docker("build", "--quiet", "--network", "none", *given, "--file", dockerfile, "--tag", image, context)

    def size(self, image):
        """Bytes of an image with all its layers."""
        return int(self.docker("image", "inspect", "--format", "{{.Size}}", image))
