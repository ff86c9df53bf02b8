"""The calls of vLLM's MooncakeStoreConnector: set-up from its file, blocks as several buffers of one registered region."""

import ctypes
import json
import os

from content import content
from mooncake.store import MooncakeDistributedStore, ReplicateConfig
from sizes import size_bytes

REGION_BYTES = 8 << 20
#: Keys and values of a layer lie apart.
PARTS = 2


class BlockStore:
    def __init__(self, own_address):
        with open(os.environ["MOONCAKE_CONFIG_PATH"]) as file:
            config = json.load(file)
        assert config["mode"] == "embedded"
        self.store = MooncakeDistributedStore()
        code = self.store.setup(
            own_address,
            config["metadata_server"],
            size_bytes(config["global_segment_size"]),
            size_bytes(config["local_buffer_size"]),
            config["protocol"],
            config["device_name"],
            config["master_server_address"],
        )
        assert code == 0, f"setup answered {code}"
        self.region = ctypes.create_string_buffer(REGION_BYTES)
        self.base = ctypes.addressof(self.region)
        assert self.store.register_buffer(self.base, REGION_BYTES) == 0
        self.replicas = ReplicateConfig()

    def _buffers(self, keys, page_bytes):
        part = page_bytes // PARTS
        assert part * PARTS == page_bytes and len(keys) * page_bytes <= REGION_BYTES
        far = self.base + len(keys) * part
        addresses = [[self.base + index * part, far + index * part] for index in range(len(keys))]
        return addresses, [[part] * PARTS] * len(keys)

    def put(self, keys, page_bytes):
        addresses, sizes = self._buffers(keys, page_bytes)
        for key, places, lengths in zip(keys, addresses, sizes):
            whole = content(key, page_bytes)
            for place, length in zip(places, lengths):
                ctypes.memmove(place, whole[:length], length)
                whole = whole[length:]
        codes = self.store.batch_put_from_multi_buffers(keys, addresses, sizes, self.replicas)
        return [min(code, 0) for code in codes]

    def get(self, keys, page_bytes):
        """Per key: "right", "wrong", or the code of a miss."""
        ctypes.memset(self.base, 0, REGION_BYTES)
        addresses, sizes = self._buffers(keys, page_bytes)
        codes = self.store.batch_get_into_multi_buffers(keys, addresses, sizes)
        verdicts = []
        for key, places, lengths, code in zip(keys, addresses, sizes, codes):
            if code < 0:
                verdicts.append(code)
                continue
            found = b"".join(map(ctypes.string_at, places, lengths))
            verdicts.append("right" if found == content(key, page_bytes) else "wrong")
        return verdicts

    def exists(self, keys):
        return self.store.batch_is_exist(keys)

    def places(self, keys):
        found = self.store.batch_get_replica_desc(keys)
        return [
            [one.get_memory_descriptor().buffer_descriptor.transport_endpoint for one in found[key]]
            for key in keys
        ]

    def calls(self):
        return {name: getattr(self, name) for name in ("put", "get", "exists", "places")}
