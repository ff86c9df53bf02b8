"""A store in a dictionary, for tests of what is built on top of the client."""

import ctypes


class FakeStore:
    """The client's byte calls and codes; `setup_codes` is what `setup` answers in turn."""

    def __init__(self, setup_codes=(0,)):
        self.setup_codes = list(setup_codes)
        self.setups = []
        self.values = {}
        self.segments = {}
        self.registered = {}
        self.closed = False
        self.refuse_mounts = False

    def setup(self, config):
        self.setups.append(config)
        return self.setup_codes.pop(0) if len(self.setup_codes) > 1 else self.setup_codes[0]

    def get_hostname(self):
        return self.setups[-1]["local_hostname"]

    def close(self):
        self.closed = True
        return 0

    def put(self, key, value, config=None):
        self.values.setdefault(key, bytes(value))
        return 0

    def upsert(self, key, value, config=None):
        self.values[key] = bytes(value)
        return 0

    def get(self, key):
        return self.values.get(key, b"")

    def is_exist(self, key):
        return -900 if key == "unreachable" else int(key in self.values)

    def remove(self, key, force=False):
        return 0 if self.values.pop(key, None) is not None else -704

    def remove_all(self, force=False):
        count = len(self.values)
        self.values.clear()
        return count

    def get_size(self, key):
        return len(self.values[key]) if key in self.values else -704

    def _mount(self, size):
        if self.refuse_mounts:
            return {"ret": -600, "segment_ids": []}
        name = f"{len(self.segments):032x}"
        self.segments[name] = size
        return {"ret": 0, "segment_ids": [name]}

    def allocate_and_mount_segment(self, size, protocol="tcp", location=""):
        return self._mount(size)

    def mount_segment(self, path, size, offset=0, protocol="tcp", location=""):
        files = [it for it in self.segments.values() if isinstance(it, tuple) and it[0] == path]
        if any(offset < at + length and at < offset + size for _, length, at in files):
            return {"ret": -600, "segment_ids": []}
        return self._mount((path, size, offset))

    def unmount_segment(self, ids, grace=0):
        return 0 if all(self.segments.pop(name, None) is not None for name in ids) else -101

    unmount_and_free_segment = unmount_segment

    def has_disks(self):
        return False

    def unmount_local_disk_segment(self, grace=0):
        return 0

    def register_buffer(self, address, size):
        self.registered[address] = size
        return 0

    def unregister_buffer(self, address):
        return 0 if self.registered.pop(address, None) is not None else -600

    def _device_of(self, address, size):
        return None

    def _load(self, address, size):
        return ctypes.string_at(address, size)

    def _save(self, address, data):
        ctypes.memmove(address, data, len(data))
        return 0

    def _gather(self, addresses, sizes):
        return b"".join(map(ctypes.string_at, addresses, sizes))

    def get_into_ranges(self, addresses, all_keys, all_targets, all_sources, all_sizes):
        read = []
        for row in zip(addresses, all_keys, all_targets, all_sources, all_sizes):
            address, *columns = row
            read.append([self._read_ranges(address, *it) for it in zip(*columns)])
        return read

    def _read_ranges(self, address, key, targets, sources, sizes):
        value, codes = self.values.get(key), []
        for target, source, size in zip(targets, sources, sizes):
            held = value is not None and source + size <= len(value)
            if held:
                ctypes.memmove(address + target, value[source : source + size], size)
            codes.append(size if held else -704)
        return codes

    def put_from(self, key, address, size, config=None):
        return self.put(key, ctypes.string_at(address, size))

    def batch_put_from_multi_buffers(self, keys, addresses, sizes, config=None):
        return [self.put(key, self._gather(*it)) for key, it in zip(keys, zip(addresses, sizes))]

    def _batch_upsert_from_multi_buffers(self, keys, addresses, sizes, config=None):
        for key in keys:
            self.values.pop(key, None)
        return self.batch_put_from_multi_buffers(keys, addresses, sizes)

    def batch_get_buffer(self, keys):
        return [bytearray(self.values[key]) if key in self.values else None for key in keys]

    def batch_get_into(self, keys, addresses, sizes):
        results = []
        for key, address, size in zip(keys, addresses, sizes):
            value = self.values.get(key)
            if value is None or len(value) > size:
                results.append(-704 if value is None else -600)
            else:
                ctypes.memmove(address, value, len(value))
                results.append(len(value))
        return results
