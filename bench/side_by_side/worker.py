"""One client or provider process: `python -m bench.side_by_side.worker FD`, driven by JSON lines.

Every value follows from its key (`bench.demo.content`). Latencies are those of the calls alone; rates are bytes and keys
over the wall time of the loop, whose keys are made before it starts. After the loop a sample is read again and every
byte of it compared.
"""

import ctypes
import json
import mmap
import os
import random
import sys
import time
from functools import partial

from bench.demo.content import Content
from bench.side_by_side.weights import HEADER_BYTES, Weights, header

LATENCIES_MAX = 4000
SAMPLE_CALLS = 8
SAMPLE_BYTES = 64 << 20


class Worker:
    """A store client with one registered buffer."""

    def __init__(self, setup, room, value_bytes_max):
        from mooncake.store import MooncakeDistributedStore

        self.store = MooncakeDistributedStore()
        code = self.store.setup(*setup)
        if code != 0:
            raise RuntimeError(f"setup returned {code}")
        self.room = room
        if room:
            self.content = Content(value_bytes_max)
            self.buffer = mmap.mmap(-1, room)
            self.address = ctypes.addressof(ctypes.c_char.from_buffer(self.buffer))
            ctypes.memset(self.address, 1, room)
            code = self.store.register_buffer(self.address, room)
            if code != 0:
                raise RuntimeError(f"register_buffer returned {code}")

    def places(self, count, size):
        """Addresses and sizes of the first `count` values in the buffer."""
        if count * size > self.room:
            raise RuntimeError(f"{count} values of {size} bytes do not fit the buffer")
        return [self.address + i * size for i in range(count)], [size] * count

    def fill(self, keys, size, batch):
        """Stores the values of `keys`."""
        addresses, sizes = self.places(batch, size)
        refused = 0
        for first in range(0, len(keys), batch):
            part = keys[first : first + batch]
            for key, address in zip(part, addresses):
                self.content.fill(key, address, size)
            codes = self.store.batch_put_from(part, addresses[: len(part)], sizes[: len(part)])
            refused += sum(code != 0 for code in codes)
        return {"refused": refused}

    def wipe(self):
        """Removes everything, whether leased or not."""
        return {"removed": self.store.remove_all(True)}

    def update(self, job):
        """Writes or reads all tensors of one weight update in one call; a read is checked to the byte."""
        weights = Weights(job["tensors"], job["bytes"])
        if weights.room > self.room:
            raise RuntimeError(f"tensors of {weights.room} bytes do not fit the buffer")
        keys, sizes = weights.keys(job["update"]), weights.sizes
        addresses = [self.address + offset for offset in weights.offsets]
        is_read = job["operation"] == "get"
        if is_read:
            ctypes.memset(self.address, 0, weights.room)
            call = partial(self.store.batch_get_into, keys, addresses, sizes)
        else:
            for key, (place, data, size) in zip(keys, weights.rows(self.address)):
                ctypes.memmove(place, header(size), HEADER_BYTES)
                self.content.fill(key, data, size)
            call = partial(self.store.batch_put_tensor_from, keys, addresses, sizes)
        cpu_started, started = time.process_time(), time.perf_counter()
        codes = call()
        seconds = time.perf_counter() - started
        cpu = time.process_time() - cpu_started
        good = sum(code == (size if is_read else 0) for code, size in zip(codes, sizes))
        corrupt = 0
        if is_read:
            for key, code, (place, data, size) in zip(keys, codes, weights.rows(self.address)):
                is_whole = ctypes.string_at(place, HEADER_BYTES) == header(size)
                is_whole = is_whole and self.content.matches(key, data, size)
                corrupt += code > 0 and not is_whole
        return {
            "calls": 1,
            "items": good,
            "errors": len(keys) - good,
            "checked": good if is_read else 0,
            "corrupt": corrupt,
            "seconds": seconds,
            "cpu_s": cpu,
            "latencies": [seconds],
        }

    def measure(self, job):
        """Runs one kind of call until its time or its keys are over."""
        size, batch = job["size"], job["batch"]
        operation = OPERATIONS[job["operation"]]
        calls = operation.calls(self, job, size, batch)
        stopwatch = time.perf_counter
        latencies, items, refused = [], 0, 0
        while time.monotonic() < job["start_at"]:
            time.sleep(0.0005)
        cpu_started, started = time.process_time(), stopwatch()
        end = started + job["seconds"]
        for call in calls:
            before = stopwatch()
            if before >= end:
                break
            result = call()
            latencies.append(stopwatch() - before)
            good = operation.good(result, size)
            items += good
            refused += batch - good
        seconds = stopwatch() - started
        cpu = time.process_time() - cpu_started
        checked, corrupt = operation.check(self, job, len(latencies))
        latencies.sort()
        return {
            "calls": len(latencies),
            "items": items,
            "errors": refused,
            "checked": checked,
            "corrupt": corrupt,
            "seconds": seconds,
            "cpu_s": cpu,
            "latencies": latencies[:: max(1, len(latencies) // LATENCIES_MAX)] + latencies[-1:],
        }

    def check_values(self, keys, owners, size, plain):
        """Reads `keys` and compares them with the values of `owners`; returns checked and corrupt."""
        if plain:
            values = [(self.store.get(key), owner) for key, owner in zip(keys, owners)]
            found = [(value, owner) for value, owner in values if len(value) > 0]
            return len(found), sum(value != self.value(owner, size) for value, owner in found)
        addresses, sizes = self.places(len(keys), size)
        ctypes.memset(self.address, 0, len(keys) * size)
        codes = self.store.batch_get_into(keys, addresses, sizes)
        checked = wrong = 0
        for owner, address, code in zip(owners, addresses, codes):
            # A value that is gone is not a wrong one; losses of the timed calls are counted as errors.
            if code >= 0:
                checked += 1
                wrong += code != size or not self.content.matches(owner, address, size)
        return checked, wrong

    def value(self, key, size):
        """The value of a key as bytes."""
        room = ctypes.create_string_buffer(size)
        self.content.fill(key, ctypes.addressof(room), size)
        return room.raw


def batches_of(keys, batch, seed):
    """Whole batches in a random order."""
    batches = [keys[i : i + batch] for i in range(0, len(keys) - batch + 1, batch)]
    random.Random(seed).shuffle(batches)
    return batches


def endless(batches):
    """Each batch in turn, over and over."""
    while True:
        yield from batches


def sample_of(size, batch):
    """How many calls of a row are checked."""
    return max(1, min(SAMPLE_CALLS, SAMPLE_BYTES // (size * batch)))


class Get:
    """Reads of stored keys, over and over."""

    plain = False

    def calls(self, worker, job, size, batch):
        """Callables that make one call each; all but the calls themselves is done here."""
        addresses, sizes = worker.places(batch, size)
        self.batches = batches_of(job["keys"], batch, job["seed"])
        get = worker.store.batch_get_into
        return (partial(get, keys, addresses, sizes) for keys in endless(self.batches))

    def good(self, result, size):
        """Keys of a call that were served."""
        return result.count(size)

    def check(self, worker, job, _calls):
        """Reads some again and compares every byte."""
        checked = corrupt = 0
        for keys in self.batches[: sample_of(job["size"], job["batch"])]:
            count, wrong = worker.check_values(keys, keys, job["size"], self.plain)
            checked += count
            corrupt += wrong
        return checked, corrupt


class PlainGet(Get):
    """`get`, one key at a time."""

    plain = True

    def calls(self, worker, job, _size, _batch):
        self.batches = batches_of(job["keys"], 1, job["seed"])
        get = worker.store.get
        return (partial(get, key) for [key] in endless(self.batches))

    def good(self, result, size):
        return int(len(result) == size)


class Put:
    """Writes of new keys. The i-th value of each batch is that of one owner key, as making values is not measured."""

    plain = False

    def calls(self, worker, job, size, batch):
        self.prefix, self.batch = job["prefix"], batch
        self.owners = [f"owner-{i}" for i in range(batch)]
        addresses, sizes = worker.places(batch, size)
        for owner, address in zip(self.owners, addresses):
            worker.content.fill(owner, address, size)
        put = worker.store.batch_put_from
        batches = [self.keys(number) for number in range(max(1, job["cap_bytes"] // (size * batch)))]
        return (partial(put, keys, addresses, sizes) for keys in batches)

    def keys(self, number):
        """Keys of a batch."""
        return [f"{self.prefix}-{number}-{i}" for i in range(self.batch)]

    def good(self, result, _size):
        return result.count(0)

    def check(self, worker, job, calls):
        checked = corrupt = 0
        for number in range(max(0, calls - sample_of(job["size"], self.batch)), calls):
            count, wrong = worker.check_values(self.keys(number), self.owners, job["size"], self.plain)
            checked += count
            corrupt += wrong
        return checked, corrupt


class PlainPut(Put):
    """`put`, one key at a time."""

    plain = True

    def calls(self, worker, job, size, batch):
        self.prefix, self.batch, self.owners = job["prefix"], batch, ["owner-0"]
        put, value = worker.store.put, worker.value("owner-0", size)
        keys = [self.keys(number)[0] for number in range(max(1, job["cap_bytes"] // size))]
        return (partial(put, key, value) for key in keys)

    def good(self, result, _size):
        return int(result == 0)


class Exist(Get):
    """`batch_is_exist`; there are no bytes to check."""

    def calls(self, worker, job, _size, batch):
        ask = worker.store.batch_is_exist
        batches = batches_of(job["keys"], batch, job["seed"])
        return (partial(ask, keys) for keys in endless(batches))

    def good(self, result, _size):
        return result.count(1)

    def check(self, _worker, _job, _calls):
        return 0, 0


class SingleExist(Exist):
    """`is_exist`, one key at a time."""

    def calls(self, worker, job, _size, _batch):
        ask = worker.store.is_exist
        batches = batches_of(job["keys"], 1, job["seed"])
        return (partial(ask, key) for [key] in endless(batches))

    def good(self, result, _size):
        return int(result == 1)


OPERATIONS = {
    "batch_get_into": Get(),
    "batch_put_from": Put(),
    "get": PlainGet(),
    "put": PlainPut(),
    "batch_is_exist": Exist(),
    "is_exist": SingleExist(),
}


def serve(lines, say):
    """Does what each line asks for, until there are no more."""
    worker = None
    for line in lines:
        job = json.loads(line)
        match job["do"]:
            case "open":
                worker = Worker(job["setup"], job["room"], job["value_bytes_max"])
                say({"open": True})
            case "fill":
                say(worker.fill(job["keys"], job["size"], job["batch"]))
            case "wipe":
                say(worker.wipe())
            case "update":
                say(worker.update(job))
            case "measure":
                say(worker.measure(job))
    if worker:
        worker.store.close()


def main():
    with os.fdopen(int(sys.argv[1]), "w", encoding="utf-8") as channel:

        def say(message):
            channel.write(json.dumps(message) + "\n")
            channel.flush()

        try:
            serve(sys.stdin, say)
        except Exception as error:  # the driver shows it; a trace goes to the log
            say({"error": f"{type(error).__name__}: {error}"})
            raise


if __name__ == "__main__":
    main()
