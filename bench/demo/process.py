"""Child processes that never outlive the demo, with their logs."""

import ctypes
import os
import signal
import subprocess

STOP_SECONDS = 15
LOG_TAIL_BYTES = 4000
PR_SET_PDEATHSIG = 1

libc = ctypes.CDLL(None, use_errno=True)


class ProcessError(RuntimeError):
    """A program that did not start, did not stop or failed; the text carries its log's end."""


def die_with_parent():
    """Runs in the child: even a killed demo leaves nothing behind."""
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class Process:
    """A running program in its own session, so that Ctrl-C reaches the demo alone."""

    def __init__(self, name, command, log_folder, environment=None, **channels):
        self.name = name
        self.log_path = os.path.join(log_folder, f"{name}.log")
        with open(self.log_path, "ab") as log:
            channels.setdefault("stdin", subprocess.DEVNULL)
            channels.setdefault("stdout", log)
            try:
                self.child = subprocess.Popen(
                    command,
                    stderr=log,
                    env={**os.environ, **(environment or {})},
                    start_new_session=True,
                    preexec_fn=die_with_parent,  # noqa: PLW1509  (the demo has one thread)
                    **channels,
                )
            except OSError as error:
                raise ProcessError(f"{name}: cannot start {command[0]}: {error.strerror}") from error

    def check_running(self):
        """ProcessError if it has ended."""
        code = self.child.poll()
        if code is not None:
            raise ProcessError(f"{self.name} ended with {code}; end of {self.log_path}:\n{self.tail()}")

    def tail(self):
        """End of the log."""
        with open(self.log_path, "rb") as log:
            log.seek(0, os.SEEK_END)
            log.seek(max(0, log.tell() - LOG_TAIL_BYTES))
            return log.read().decode(errors="replace").strip() or "(the log is empty)"

    def stop(self, request=signal.SIGTERM):
        """Asks it to end, waits, kills if it must; returns a complaint or None."""
        if self.child.poll() is None:
            self.child.send_signal(request)
        try:
            code = self.child.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait()
            return f"{self.name} did not stop within {STOP_SECONDS} s and was killed"
        return None if code == 0 else f"{self.name} ended with {code}, see {self.log_path}"

    def kill(self):
        """Ends it at once."""
        if self.child.poll() is None:
            self.child.kill()
        self.child.wait()
