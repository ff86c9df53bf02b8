"""`python -m mooncake.http_metadata_server`: the stand-alone metadata service.

The service itself is the bundled program. `KVBootstrapServer` runs it beside a Python program, and
the command line becomes it, with the same options.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
from enum import Enum

from perigee_mooncake.program import program_path

from .cli import mooncake_http_metadata_server as main

logger = logging.getLogger("mooncake.metadata")

PROGRAM = "mooncake_http_metadata_server"
STOP_TIMEOUT_S = 5.0
# Becomes the program, which the kernel ends with the thread that has started it.
_START = """
import ctypes, os, signal, sys
PR_SET_PDEATHSIG = 1
ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
parent, path, *arguments = sys.argv[1:]
if os.getppid() == int(parent):
    try:
        os.execv(path, arguments)
    except OSError as error:
        sys.exit(f"{arguments[0]}: {path} could not be started: {error.strerror}")
"""


class KVPoll(Enum):
    """What a server does."""

    Failed = 0
    Bootstrapping = 1
    WaitingForInput = 2
    Transferring = 3
    Success = 4


class KVBootstrapServer:
    """The metadata service on `host` and `port`, as a process that ends with this one."""

    def __init__(self, port: int, host: str = "0.0.0.0") -> None:
        self.port = port
        self.host = host
        self.thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._is_closed = False

    def run(self) -> threading.Thread:
        """Start the service; returns the thread that waits for its end."""
        with self._lock:
            if self.thread is None:
                started = threading.Event()
                work = (started,)
                self.thread = threading.Thread(target=self._serve, args=work, daemon=True)
                self.thread.start()
                started.wait()
        return self.thread

    def _serve(self, started: threading.Event) -> None:
        start = [sys.executable, "-I", "-c", _START, str(os.getpid()), program_path()]
        try:
            # From this thread, which lives as long as the service.
            self._process = subprocess.Popen(
                [*start, PROGRAM, f"--host={self.host}", f"--port={self.port}"]
            )
        except OSError as error:
            logger.error("The metadata service cannot be started: %s", error)
            return
        finally:
            started.set()
        code = self._process.wait()
        if not self._is_closed:
            logger.error("The metadata service has ended with status %d", code)

    def close(self) -> None:
        """End the service."""
        self._is_closed = True
        thread, process = self.thread, self._process
        if process is not None and process.poll() is None:
            process.terminate()
            try:
                process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
        if thread is not None:
            thread.join(STOP_TIMEOUT_S)

    def poll(self) -> KVPoll:
        """Success while the service runs, else Failed."""
        is_alive = self.thread is not None and self.thread.is_alive()
        return KVPoll.Success if is_alive else KVPoll.Failed


__all__ = ["KVBootstrapServer", "KVPoll", "main"]

if __name__ == "__main__":
    main()
