"""A process with a transfer engine, driven line by line; both sides of it are in this file.

As a program it needs nothing but `mooncake.engine`, of any implementation: the interoperation tests run
it with Mooncake's own. Its memory is three parts of `PART_BYTES`; only the middle one is
registered, so that the tests see whether anything outside was touched.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import signal
import subprocess
import sys
import time

PART_BYTES = 4 << 20
HOST = "127.0.0.1"
PEER_TO_PEER = "P2PHANDSHAKE"
REPLY_TIMEOUT_S = 60
POLL_S = 0.01


class Memory:
    """The three parts and their addresses."""

    def __init__(self):
        import ctypes
        import mmap

        self.bytes = mmap.mmap(-1, 3 * PART_BYTES)
        self.start = ctypes.addressof(ctypes.c_char.from_buffer(self.bytes))
        self.registered = self.start + PART_BYTES

    def get(self, offset, count):
        """Bytes from `offset` of the registered part on; a negative one is before it."""
        start = PART_BYTES + offset
        return self.bytes[start : start + count]

    def set(self, offset, value):
        start = PART_BYTES + offset
        self.bytes[start : start + len(value)] = value

    def neighbours(self):
        return self.bytes[:PART_BYTES] + self.bytes[2 * PART_BYTES :]


def pattern(seed, count):
    """Bytes that depend on the seed everywhere."""
    import random

    return random.Random(seed).randbytes(count)


class Peer:
    """The test's side."""

    def __init__(self, log, python=sys.executable, environment=None, name=HOST, metadata=None):
        self.metadata = metadata or PEER_TO_PEER
        self.log = log
        with open(log, "wb") as output:
            self.process = subprocess.Popen(
                [python, "-P", __file__, name, self.metadata],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                text=True,
                env={**os.environ, **(environment or {})},
            )
        started = self.reply()
        assert started["code"] == 0, self.text()
        self.address = started["address"]
        self.port = started["port"]
        self.session = f"{HOST}:{self.port}" if self.metadata == PEER_TO_PEER else name

    def text(self):
        return self.log.read_text(errors="replace")[-4000:]

    def reply(self):
        # The program answers every line; if it does not, the timeout of the test run ends the test.
        line = self.process.stdout.readline()
        assert line, f"the peer ended with {self.process.wait(REPLY_TIMEOUT_S)}: {self.text()}"
        return json.loads(line)

    def ask(self, **request):
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        answer = self.reply()
        assert "error" not in answer, answer["error"]
        return answer["value"]

    def call(self, method, *arguments):
        """Call a method of its engine."""
        return self.ask(do="call", method=method, arguments=arguments)

    def fill(self, seed, offset=0, count=PART_BYTES):
        self.ask(do="set", offset=offset, value=base64.b64encode(pattern(seed, count)).decode())

    def get(self, offset, count):
        return base64.b64decode(self.ask(do="get", offset=offset, count=count))

    def neighbours_are_untouched(self):
        return self.ask(do="neighbours")

    def notifies(self):
        return [tuple(notify) for notify in self.ask(do="notifies")]

    def wait_for_notify(self):
        deadline = time.monotonic() + REPLY_TIMEOUT_S
        while time.monotonic() < deadline:
            if notifies := self.notifies():
                return notifies
            time.sleep(POLL_S)
        raise AssertionError("no notify arrived")

    def freeze(self):
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self):
        self.process.send_signal(signal.SIGCONT)

    def kill(self):
        self.process.kill()
        self.process.wait(REPLY_TIMEOUT_S)

    def stop(self):
        """End it as a program ends by itself; return its exit status."""
        if self.process.poll() is None:
            self.thaw()
            self.process.stdin.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(REPLY_TIMEOUT_S)
            self.process.kill()
        self.process.stdout.close()
        return self.process.wait(REPLY_TIMEOUT_S)


def run(name, metadata):
    from mooncake.engine import TransferEngine

    engine, memory = TransferEngine(), Memory()
    code = engine.initialize(name, metadata, "tcp", "")
    code = code or engine.register_memory(memory.registered, PART_BYTES)
    port = engine.get_rpc_port() if code == 0 else 0
    # Under PYTHONUNBUFFERED, sys.stdout drops what an interrupted write has left over.
    replies = open(1, "w", closefd=False)
    started = {"code": code, "address": memory.registered, "port": port}
    print(json.dumps(started), file=replies, flush=True)
    for line in sys.stdin:
        try:
            answer = {"value": answer_one(engine, memory, json.loads(line))}
        except Exception as error:
            answer = {"error": repr(error)}
        print(json.dumps(answer), file=replies, flush=True)


def answer_one(engine, memory, request):
    match request["do"]:
        case "call":
            return call(engine, request["method"], request["arguments"])
        case "set":
            memory.set(request["offset"], base64.b64decode(request["value"]))
        case "get":
            return base64.b64encode(memory.get(request["offset"], request["count"])).decode()
        case "neighbours":
            return not any(memory.neighbours())
        case "notifies":
            return [(notify.name, notify.msg) for notify in engine.get_notifies()]
    return None


def call(engine, method, arguments):
    """Dicts stand for what JSON does not have: {"opcode": name} and {"notify": [name, text]}."""
    from mooncake.engine import TransferNotify, TransferOpcode

    def value(argument):
        if not isinstance(argument, dict):
            return argument
        if "opcode" in argument:
            return getattr(TransferOpcode, argument["opcode"])
        return TransferNotify(*argument["notify"])

    return getattr(engine, method)(*map(value, arguments))


if __name__ == "__main__":
    run(*sys.argv[1:])
