"""One inference engine in small: looks up each prompt, reads what is cached, stores the rest.

Runs as its own process (`python -m bench.demo.client FD`). It reads one JSON object from stdin (the
plan), and writes JSON lines to the file descriptor FD: `{"ready": true}`, `{"done": n}` now and
then, at the end `{"tally": {...}, "seconds": s}`, or `{"error": text}`. It starts when a newline follows
the plan, so that all clients start together.
"""

import ctypes
import dataclasses
import json
import mmap
import os
import sys
import time

from bench.demo.content import Content
from bench.demo.report import Tally

PROGRESS_SECONDS = 0.1


class Client:
    """A store client with one registered buffer."""

    def __init__(self, plan):
        # Imported here so that the other parts of the demo need no wheel.
        from mooncake.store import MooncakeDistributedStore

        self.block_bytes = plan["block_bytes"]
        self.requests = plan["requests"]
        self.content = Content(self.block_bytes)
        self.tally = Tally()
        room = max(map(len, self.requests), default=1) * self.block_bytes
        self.buffer = mmap.mmap(-1, room)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self.buffer))
        ctypes.memset(self.address, 0, room)
        self.store = MooncakeDistributedStore()
        self.expect_ok("setup", self.store.setup(*plan["setup"]))
        self.expect_ok("register_buffer", self.store.register_buffer(self.address, room))

    @staticmethod
    def expect_ok(call, code):
        if code != 0:
            raise RuntimeError(f"{call} returned {code}")

    def timed(self, operation, call, *arguments):
        """Result of a call; its time is kept and added to the request's."""
        started = time.perf_counter()
        result = call(*arguments)
        seconds = time.perf_counter() - started
        self.tally.latencies[operation].append(seconds)
        self.request_seconds += seconds
        return result

    def run(self, on_progress):
        """Serves all requests; returns the seconds it took."""
        started = reported = time.perf_counter()
        for done, blocks in enumerate(self.requests, 1):
            self.serve([f"demo-{self.block_bytes}-{block}" for block in blocks])
            now = time.perf_counter()
            if now - reported > PROGRESS_SECONDS:
                reported = now
                on_progress(done)
        return time.perf_counter() - started

    def serve(self, keys):
        """One request: exist, get of the cached prefix, put of the rest."""
        self.request_seconds = 0.0
        self.tally.requests += 1
        self.tally.blocks += len(keys)
        present = self.timed("exist", self.store.batch_is_exist, keys)
        cached = next((i for i, code in enumerate(present) if code != 1), len(keys))
        if cached:
            self.read(keys[:cached])
        if cached < len(keys):
            self.write(keys[cached:])
        self.tally.latencies["request"].append(self.request_seconds)

    def places(self, count):
        addresses = [self.address + i * self.block_bytes for i in range(count)]
        return addresses, [self.block_bytes] * count

    def read(self, keys):
        addresses, sizes = self.places(len(keys))
        codes = self.timed("get", self.store.batch_get_into, keys, addresses, sizes)
        unbroken = True
        for key, address, code in zip(keys, addresses, codes, strict=True):
            if code != self.block_bytes:
                self.fail("get", code)
                self.tally.lost += 1
                unbroken = False
            elif not self.content.matches(key, address, self.block_bytes):
                self.tally.corrupt += 1
                unbroken = False
            else:
                self.tally.get_bytes += code
                # A block after a hole is of no use to an engine: only the prefix is a hit.
                self.tally.hits += unbroken

    def write(self, keys):
        addresses, sizes = self.places(len(keys))
        for key, address in zip(keys, addresses, strict=True):
            self.content.fill(key, address, self.block_bytes)
        codes = self.timed("put", self.store.batch_put_from, keys, addresses, sizes)
        for code in codes:
            if code == 0:
                self.tally.stored += 1
                self.tally.put_bytes += self.block_bytes
            else:
                self.fail("put", code)
                self.tally.refused += 1

    def fail(self, operation, code):
        name = f"{operation} {code}"
        self.tally.codes[name] = self.tally.codes.get(name, 0) + 1


def main():
    with os.fdopen(int(sys.argv[1]), "w", encoding="utf-8") as channel:

        def say(**message):
            channel.write(json.dumps(message) + "\n")
            channel.flush()

        try:
            client = Client(json.loads(sys.stdin.readline()))
            say(ready=True)
            if not sys.stdin.readline():
                return 1
            seconds = client.run(lambda done: say(done=done))
            client.expect_ok("close", client.store.close())
            say(tally=dataclasses.asdict(client.tally), seconds=seconds)
        except Exception as error:  # the driver shows it; a trace goes to the log
            say(error=f"{type(error).__name__}: {error}")
            raise
    return 0


if __name__ == "__main__":
    sys.exit(main())
