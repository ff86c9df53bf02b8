"""Client classes run in processes of their own: an engine's worker is one process.

As a program: `client_process.py MODULE:FUNCTION FOLDER` calls the function with the arguments in
FOLDER/arguments.json. A function that calls `meet()` tells the test that it is ready, and whatever
it has to say, and goes on when the test says so. What it returns is handed to the test as JSON.
"""

import importlib
import json
import os
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

DEADLINE_SECONDS = 180
POLL_SECONDS = 0.05
LOG_TAIL_CHARACTERS = 8000
FOLDER = Path(__file__).resolve().parent


class ClientProcess:
    """The test's side of a client process."""

    def __init__(self, function, arguments, folder, environment):
        self.function = function
        self.folder = folder
        folder.mkdir()
        (folder / "arguments.json").write_text(json.dumps(arguments))
        with open(folder / "log", "wb") as log:
            self.child = subprocess.Popen(
                [sys.executable, __file__, function, str(folder)],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env={**os.environ, **environment, "PYTHONPATH": str(FOLDER)},
                cwd=folder,
            )

    def log(self):
        text = (self.folder / "log").read_text(errors="replace")
        return f"{self.function}:\n{text[-LOG_TAIL_CHARACTERS:]}"

    def wait_ready(self):
        """Returns once the function has called `meet`; what it said is in `said`."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not (self.folder / "ready").exists():
            assert self.child.poll() is None, self.log()
            assert time.monotonic() < deadline, f"not ready in {DEADLINE_SECONDS} s, {self.log()}"
            time.sleep(POLL_SECONDS)
        self.said = json.loads((self.folder / "ready").read_text())
        return self

    def finish(self):
        """Lets the function go on to its end; returns what it returned."""
        self.child.stdin.close()
        try:
            code = self.child.wait(DEADLINE_SECONDS)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"did not end in {DEADLINE_SECONDS} s, {self.log()}") from None
        assert code == 0, f"ended with {code}, {self.log()}"
        return json.loads((self.folder / "result.json").read_text())

    def kill(self):
        if self.child.poll() is None:
            self.child.kill()
        self.child.wait()


def meet(folder, **said):
    """Tells the test that everything is in place and waits until it lets this process go on."""
    (folder / "saying").write_text(json.dumps(said))
    (folder / "saying").rename(folder / "ready")
    sys.stdin.read()


def main(function, folder):
    folder = Path(folder)
    module, name = function.split(":")
    arguments = json.loads((folder / "arguments.json").read_text())
    result = getattr(importlib.import_module(module), name)(meet=partial(meet, folder), **arguments)
    (folder / "result.json").write_text(json.dumps(result))


if __name__ == "__main__":
    main(*sys.argv[1:])
