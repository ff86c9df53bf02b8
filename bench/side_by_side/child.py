"""A process of one implementation that is driven by JSON lines and answers on a pipe of its own."""

import json
import os
import selectors
import signal
import subprocess

from bench.demo.process import Process, ProcessError

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
#: Longest wait for an answer; the slowest is the fill of a segment.
ANSWER_SECONDS = 300
READ_BYTES = 1 << 20


class Child:
    """Runs `python -m MODULE FD`; its own prints go to a log."""

    def __init__(self, name, python, module, log_folder, environment):
        self.reading, writing = os.pipe()
        self.rest = b""
        try:
            self.process = Process(
                name,
                [python, "-m", module, str(writing)],
                log_folder,
                {"PYTHONPATH": ROOT, **environment},
                stdin=subprocess.PIPE,
                pass_fds=(writing,),
            )
        finally:
            os.close(writing)

    @property
    def pid(self):
        """Also the number of its session."""
        return self.process.child.pid

    def send(self, message):
        """One line to its stdin."""
        try:
            self.process.child.stdin.write(json.dumps(message).encode() + b"\n")
            self.process.child.stdin.flush()
        except BrokenPipeError:
            self.fail()

    def receive(self):
        """The next message; ProcessError if it reports an error, ends or stays silent."""
        while b"\n" not in self.rest:
            with selectors.DefaultSelector() as pipe:
                pipe.register(self.reading, selectors.EVENT_READ)
                if not pipe.select(ANSWER_SECONDS):
                    raise ProcessError(f"{self.process.name} said nothing for {ANSWER_SECONDS} s")
            data = os.read(self.reading, READ_BYTES)
            if not data:
                self.fail()
            self.rest += data
        line, _, self.rest = self.rest.partition(b"\n")
        message = json.loads(line)
        if "error" in message:
            raise ProcessError(f"{self.process.name}: {message['error']}, see {self.process.log_path}")
        return message

    def ask(self, message):
        """Sends and receives."""
        self.send(message)
        return self.receive()

    def fail(self):
        """Says how it ended."""
        self.process.child.wait(ANSWER_SECONDS)
        self.process.check_running()
        raise ProcessError(f"{self.process.name} closed its pipe")

    def stop(self):
        """It ends when its stdin does; killed if it does not, or must not."""
        try:
            self.process.child.stdin.close()
            self.process.child.wait(15)
        except (BrokenPipeError, subprocess.TimeoutExpired):
            pass
        self.process.kill()
        end_session(self.pid)
        os.close(self.reading)


def end_session(leader):
    """Ends what a program left behind in its own process group."""
    try:
        os.killpg(leader, signal.SIGKILL)
    except ProcessLookupError:
        pass
