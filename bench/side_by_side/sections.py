"""What is measured of one side in one round: bulk transfers, single puts and gets, calls that move no bytes."""

import os
import time

from bench.demo.process import ProcessError
from bench.demo.report import percentile
from bench.side_by_side.weights import Weights

#: Objects per call in the bulk section, by object size; other sizes take what fills about 16 MiB.
BATCHES = {4 << 10: 128, 64 << 10: 64, 1 << 20: 16, 4 << 20: 4, 16 << 20: 2}
PLAIN_SIZES = (4 << 10, 64 << 10)
EXIST_KEYS = 4096
EXIST_BATCH = 256
#: Stored for the gets, so that they do not find their objects in a cache.
GET_BYTES = 512 << 20
GET_SHARE = 0.25
GET_KEYS_MAX = 8192
WARM_BYTES = 4 << 20
#: An owner makes its pages as they are used: nearly all are used once here, without setting off eviction.
WARM_SHARE = 0.92
#: Share of the segment that the puts of one row may fill; more would set off eviction.
PUT_SHARE = 0.75
#: Removed objects may hold their space until their leases end; a row starts when the space is free again.
EMPTY_SHARE = 0.01
EMPTY_EXTRA_SECONDS = 2.0
POLL_SECONDS = 0.05
START_SECONDS = 0.1


def batch_of(size):
    """Objects per call for objects of `size` bytes."""
    return BATCHES.get(size, max(1, (16 << 20) // size))


class Round:
    """One side in one round, with the clients it needs."""

    def __init__(self, side, options, number, output):
        self.side, self.options, self.number, self.output = side, options, number, output
        side.own_segment("provider", options.segment)
        sizes = [*options.sizes, *PLAIN_SIZES, WARM_BYTES]
        room = max(batch_of(size) * size for size in sizes)
        if "weights" in options.sections:
            self.tensors = Weights(options.tensors, options.weight_bytes)
            room, sizes = max(room, self.tensors.room), [*sizes, *self.tensors.sizes]
        count = max(*options.clients, 2 if "weights" in options.sections else 1)
        self.clients = [side.client(f"client-{i}", 0, room, max(sizes)) for i in range(count)]

    def run(self):
        """All sections, then the memory in use."""
        self.touch_segment()
        for name, section in (("bulk", self.bulk), ("plain", self.plain), ("rpc", self.calls), ("weights", self.weights)):
            if name in self.options.sections:
                section()
        memory = self.side.memory()
        self.write("memory", master_bytes=memory["master"], provider_bytes=memory["provider"])

    def touch_segment(self):
        """Stores values all over the segment and removes them, so that no row pays for first touches of memory."""
        count = int(WARM_SHARE * self.options.segment / WARM_BYTES)
        self.fill("warm", WARM_BYTES, count)
        self.wipe()

    def bulk(self):
        """Zero-copy batches."""
        for size in self.options.sizes:
            self.rows("bulk", "batch_put_from", "batch_get_into", size, batch_of(size))

    def plain(self):
        """`put` and `get` of bytes, one by one."""
        for size in PLAIN_SIZES:
            self.rows("plain", "put", "get", size, 1)

    def rows(self, section, put, get, size, batch):
        """Rows of a put and a get operation, for each number of clients."""
        for clients in self.options.clients:
            self.measure(section, put, clients, size, batch)
            self.wipe()
        room = min(GET_BYTES, int(GET_SHARE * self.options.segment))
        count = min(GET_KEYS_MAX, room // size)
        keys = self.fill("stored", size, count - count % batch)
        for clients in self.options.clients:
            self.measure(section, get, clients, size, batch, keys)
        self.wipe()

    def calls(self):
        """`is_exist` and `batch_is_exist`."""
        keys = self.fill("there", 4 << 10, EXIST_KEYS)
        for clients in self.options.clients:
            self.measure("rpc", "is_exist", clients, 0, 1, keys)
            self.measure("rpc", "batch_is_exist", clients, 0, EXIST_BATCH, keys)
        self.wipe()

    def weights(self):
        """Weight updates: one client writes all tensors in one call, another one reads them in one."""
        job = {"do": "update", "tensors": self.options.tensors, "bytes": self.options.weight_bytes}
        for update in range(self.options.updates):
            for operation, client in zip(("put", "get"), self.clients):
                cpu_before = self.side.cpu()
                answer = client.ask({**job, "operation": operation, "update": update})
                cpu_after = self.side.cpu()
                cpu = {f"cpu_{name}_s": round(cpu_after[name] - cpu_before[name], 3) for name in cpu_after}
                bytes_each = self.tensors.total_bytes / self.options.tensors
                row = {"clients": 1, "size": 0, "batch": self.options.tensors, **summary([answer], bytes_each), **cpu}
                self.write("weights", operation=operation, **row)
            self.wipe()

    def fill(self, prefix, size, count):
        """Stores `count` objects; returns their keys."""
        keys = [f"{prefix}-{size}-{i}" for i in range(count)]
        answer = self.clients[0].ask({"do": "fill", "keys": keys, "size": size, "batch": min(count, batch_of(size))})
        if answer["refused"]:
            raise ProcessError(f"{answer['refused']} of {count} objects of {size} bytes were not stored")
        return keys

    def wipe(self):
        """Removes everything; returns when the space is free."""
        removed = self.clients[0].ask({"do": "wipe"})["removed"]
        if removed < 0:
            raise ProcessError(f"remove_all returned {removed}")
        deadline = time.monotonic() + self.options.lease_ms / 1000 + EMPTY_EXTRA_SECONDS
        while self.side.metric("master_allocated_bytes") > EMPTY_SHARE * self.options.segment:
            if time.monotonic() > deadline:
                raise ProcessError("removed objects still hold their space after their leases")
            time.sleep(POLL_SECONDS)

    def measure(self, section, operation, clients, size, batch, keys=None):
        """One row: `clients` processes do the same at the same time."""
        cpu_before = self.side.cpu()
        job = {
            "do": "measure",
            "operation": operation,
            "size": size,
            "batch": batch,
            "keys": keys,
            "seconds": self.options.seconds,
            "cap_bytes": int(PUT_SHARE * self.options.segment) // clients,
            "start_at": time.monotonic() + START_SECONDS,
        }
        for number, client in enumerate(self.clients[:clients]):
            client.send({**job, "seed": number + 1, "prefix": f"{operation}-{clients}-{number}"})
        answers = [client.receive() for client in self.clients[:clients]]
        cpu_after = self.side.cpu()
        cpu = {f"cpu_{name}_s": round(cpu_after[name] - cpu_before[name], 3) for name in cpu_after}
        self.write(section, operation=operation, clients=clients, size=size, batch=batch, **summary(answers, size), **cpu)

    def write(self, section, **fields):
        """One line of output."""
        label = self.side.implementation.label
        load = round(os.getloadavg()[0], 2)
        self.output.write({"section": section, "label": label, "round": self.number, **fields, "load": load})


def summary(answers, size):
    """What several clients measured, as one."""
    latencies = [seconds for answer in answers for seconds in answer["latencies"]]
    items_per_s = sum(answer["items"] / answer["seconds"] for answer in answers)
    total = {name: sum(answer[name] for answer in answers) for name in ("calls", "items", "errors", "checked", "corrupt")}
    return {
        "seconds": round(max(answer["seconds"] for answer in answers), 3),
        **total,
        "items_per_s": round(items_per_s, 1),
        "gb_per_s": round(items_per_s * size / 1e9, 4),
        "moved_gb": round(total["items"] * size / 1e9, 4),
        "p50_us": round(percentile(latencies, 0.5) * 1e6, 2) if latencies else None,
        "p99_us": round(percentile(latencies, 0.99) * 1e6, 2) if latencies else None,
        "cpu_client_s": round(sum(answer["cpu_s"] for answer in answers), 3),
    }
