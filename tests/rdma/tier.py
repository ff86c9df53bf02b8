"""A cluster in a guest whose node has a disk with ext4 on it."""

import os
import pathlib
import subprocess
import sys

from cluster import DRIVERS, RPC, Cluster

sys.path.insert(0, str(DRIVERS))
from memory import pattern  # noqa: E402
from mooncake.store import MooncakeDistributedStore  # noqa: E402

PLACE = pathlib.Path("/run/disk")
SIZES = (5_000, 65_536, 200_000)
GONE = 0
MASTER = ["--enable_offload", "--offload_drive_writes_per_day=0", "--default_kv_lease_ttl=50"]
NODE = ["--host=127.0.0.1", "--enable_offload", f"--ssd_offload_path={PLACE}/kv"]
KNOWN = "The master knows what a disk has"


def own_disk():
    """The disk of this guest."""
    return os.environ["PERIGEE_VM_DISKS"].split()[0]


def mount(disk):
    """Mount a disk, which gets a file system if it has none."""
    PLACE.mkdir(exist_ok=True)
    subprocess.run(["modprobe", "ext4"], check=True)
    if subprocess.run(["blkid", disk], stdout=subprocess.DEVNULL).returncode != 0:
        subprocess.run(["mkfs.ext4", "-q", disk], check=True)
    subprocess.run(["mount", "-t", "ext4", disk, PLACE], check=True)


def value(key, version):
    """The bytes of one version of a key, which say which one it is."""
    size = SIZES[int(key.split("-")[1]) % len(SIZES)]
    block = version.to_bytes(8, "little") + pattern(f"{key}/{version}", 4088)
    return (block * (size // len(block) + 1))[:size]


class Tier(Cluster):
    """Master, node with the disk, and a client that lends nothing."""

    def __init__(self, memory):
        super().__init__(MASTER, [*NODE, f"--global_segment_size={memory}"])
        self.store = MooncakeDistributedStore()
        assert self.store.setup("127.0.0.1", "P2PHANDSHAKE", 0, 16 << 20, "tcp", "", f"127.0.0.1:{RPC}") == 0
        self.wait_for_disk()

    def __exit__(self, *about):
        self.store.close()
        super().__exit__(*about)

    def wait_for_disk(self, times=1):
        """Wait until the node has announced so often what the disk has."""
        _, log = self.node
        self.wait(lambda: log.read_text().count(KNOWN) >= times, "announcement of the disk")

    def version(self, key):
        """The version of a key that is read; the process ends if its bytes are of none."""
        found = self.store.get(key)
        if not found:
            return GONE
        version = int.from_bytes(found[:8], "little")
        assert found == value(key, version), f"WRONG BYTES of {key}, which says it is version {version}"
        return version

    def has_copies(self, keys):
        """Whether the disk has each of these keys."""
        return all(any(it.is_local_disk_replica() for it in self.store.get_replica_desc(key)) for key in keys)
