"""The calls of LMCache's connector for Mooncake: set-up from a file by one dictionary of texts, chunks as parts."""

import ctypes
import os
import re

import yaml
from content import content
from mooncake.store import MooncakeDistributedStore, ReplicateConfig

METADATA_BYTES = 28
POOL_BYTES = 4 << 20


class ChunkStore:
    def __init__(self):
        with open(os.environ["LMCACHE_CONFIG_FILE"]) as file:
            config = yaml.safe_load(file)
        master = re.fullmatch(r"mooncakestore://(.+?)/", config["remote_url"]).group(1)
        extra = {name: str(value) for name, value in config["extra_config"].items()}
        self.store = MooncakeDistributedStore()
        code = self.store.setup({"master_server_address": master, **extra})
        assert code == 0, f"setup answered {code}"
        self.pool = ctypes.create_string_buffer(POOL_BYTES)
        self.base = ctypes.addressof(self.pool)
        assert self.store.register_buffer(self.base, POOL_BYTES) == 0
        self.replicas = ReplicateConfig()

    def put(self, keys, page_bytes):
        codes = []
        for key in keys:
            whole = content(key, page_bytes)
            codes.append(self.store.put_parts(key, whole[:METADATA_BYTES], memoryview(whole)[METADATA_BYTES:]))
        return codes

    def get(self, keys, page_bytes):
        verdicts = []
        for key, found in zip(keys, self.store.batch_get_buffer(keys)):
            if found is None:
                verdicts.append(self.store.is_exist(key) - 1)
                continue
            is_right = bytes(memoryview(found)) == content(key, page_bytes)
            verdicts.append("right" if is_right else "wrong")
        return verdicts

    def exists(self, keys):
        return [self.store.is_exist(key) for key in keys]

    def places(self, keys):
        found = [self.store.get_replica_desc(key) for key in keys]
        return [
            [one.get_memory_descriptor().buffer_descriptor.transport_endpoint for one in replicas]
            for replicas in found
        ]

    def name(self):
        return self.store.get_hostname()

    def calls(self):
        return {name: getattr(self, name) for name in ("put", "get", "exists", "places", "name")}
