"""The calls of SGLang's `MooncakeStore`: set-up from variables, a warm-up, one registered pool, zero-copy batches."""

import ctypes
import os
import time

from content import content
from mooncake.store import MooncakeDistributedStore

POOL_BYTES = 8 << 20
LOCAL_BUFFER_BYTES = 16 << 20
#: What SGLang lends if nothing is said, scaled down as the manifests are.
SEGMENT_BYTES_DEFAULT = (4 << 30) // 64
WARM_UP_BYTES = 4096
WARM_UP_TRIES = 10
WARM_UP_PAUSE_S = 1


def configuration():
    environment = os.environ
    segment = environment.get("MOONCAKE_GLOBAL_SEGMENT_SIZE")
    return {
        "local_hostname": environment.get("MOONCAKE_LOCAL_HOSTNAME", "localhost"),
        "metadata_server": environment.get("MOONCAKE_TE_META_DATA_SERVER", "P2PHANDSHAKE"),
        "segment_bytes": SEGMENT_BYTES_DEFAULT if segment is None else int(segment),
        "protocol": environment.get("MOONCAKE_PROTOCOL", "tcp"),
        "device": environment.get("MOONCAKE_DEVICE", ""),
        "master": environment["MOONCAKE_MASTER"],
    }


class PageStore:
    """A store client with a pool of pages, as a worker of SGLang has it."""

    def __init__(self):
        given = configuration()
        self.store = MooncakeDistributedStore()
        code = self.store.setup(
            given["local_hostname"],
            given["metadata_server"],
            given["segment_bytes"],
            LOCAL_BUFFER_BYTES,
            given["protocol"],
            given["device"],
            given["master"],
        )
        assert code == 0, f"setup answered {code}"
        self.warm_up()
        self.pool = ctypes.create_string_buffer(POOL_BYTES)
        self.base = ctypes.addressof(self.pool)
        assert self.store.register_buffer(self.base, POOL_BYTES) == 0

    def warm_up(self):
        """SGLang does not start before a small object was put and read back."""
        key = f"warm-up-{os.urandom(8).hex()}"
        value = content(key, WARM_UP_BYTES)
        for _ in range(WARM_UP_TRIES):
            code = self.store.put(key, value)
            if code == 0:
                break
            print(f"warm-up put answered {code}")
            time.sleep(WARM_UP_PAUSE_S)
        assert code == 0, f"warm-up put answered {code}"
        assert self.store.is_exist(key) == 1
        assert self.store.get(key) == value

    def _pages(self, keys, page_bytes):
        assert len(keys) * page_bytes <= POOL_BYTES
        return [self.base + index * page_bytes for index in range(len(keys))]

    def put(self, keys, page_bytes):
        """Codes of a batch put of the keys' contents."""
        addresses = self._pages(keys, page_bytes)
        for key, address in zip(keys, addresses):
            ctypes.memmove(address, content(key, page_bytes), page_bytes)
        return self.store.batch_put_from(keys, addresses, [page_bytes] * len(keys))

    def get(self, keys, page_bytes):
        """Per key: "right", "wrong", or the code of a miss."""
        ctypes.memset(self.base, 0, POOL_BYTES)
        addresses = self._pages(keys, page_bytes)
        codes = self.store.batch_get_into(keys, addresses, [page_bytes] * len(keys))
        verdicts = []
        for key, address, code in zip(keys, addresses, codes):
            if code < 0:
                verdicts.append(code)
                continue
            is_right = ctypes.string_at(address, page_bytes) == content(key, page_bytes)
            verdicts.append("right" if code == page_bytes and is_right else "wrong")
        return verdicts

    def exists(self, keys):
        return self.store.batch_is_exist(keys)

    def places(self, keys):
        """Per key the hosts of its replicas."""
        found = [self.store.get_replica_desc(key) for key in keys]
        return [
            [
                replica.get_memory_descriptor().buffer_descriptor.transport_endpoint
                for replica in replicas
            ]
            for replicas in found
        ]

    def name(self):
        return self.store.get_hostname()

    def calls(self):
        names = ("put", "get", "exists", "places", "name")
        return {name: getattr(self, name) for name in names}


if __name__ == "__main__":
    import sys

    import control_server

    control_server.serve(int(sys.argv[1]), PageStore().calls())
