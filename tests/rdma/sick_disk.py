"""A disk that answers errors and is well again: dm-flakey below the file system of a node.

While reads fail, what only the disk has is a miss, in time, and never a wrong byte; while writes fail, puts go on. Both times the disk has a name in the master's
metrics, and after it everything is there again without a restart of the node.
"""

import subprocess
import time

from tier import GONE, PLACE, Tier, mount, own_disk, value

KEYS = 600
NAME = "sick"
# A call that meets a disk which fails at once; what an emulated processor takes for it is most of that.
CALL_S = 30


def dmsetup(*words):
    subprocess.run(["dmsetup", *words], check=True)


class Device:
    """A device over the disk, whole or with errors."""

    def __init__(self):
        self.disk = own_disk()
        self.sectors = subprocess.run(["blockdev", "--getsz", self.disk], capture_output=True, text=True, check=True).stdout.strip()
        subprocess.run(["modprobe", "dm-flakey"], check=True)
        dmsetup("create", NAME, "--table", self.table())
        dmsetup("mknodes")
        self.path = f"/dev/mapper/{NAME}"

    def table(self, fault=None):
        if fault is None:
            return f"0 {self.sectors} linear {self.disk} 0"
        return f"0 {self.sectors} flakey {self.disk} 0 0 3600 1 {fault}"

    def become(self, fault=None):
        """From now on reads or writes fail, or nothing does."""
        dmsetup("suspend", "--nolockfs", NAME)
        dmsetup("load", NAME, "--table", self.table(fault))
        dmsetup("resume", NAME)
        print(f"   {fault or 'no errors'}", flush=True)


def timed(call, *words):
    """What a call answers, which must not take long."""
    begun = time.monotonic()
    answer = call(*words)
    took = time.monotonic() - begun
    assert took < CALL_S, f"{call.__name__}{words[:1]} took {took:.0f} s"
    return answer


def sick_disks(tier):
    return tier.metric("perigee_disks") - sum(
        float(line.split()[-1])
        for line in (tier.asked("/metrics") or b"").decode().splitlines()
        if line.startswith('perigee_disks{state="healthy"}')
    )


def put(tier, keys):
    for key in keys:
        assert timed(tier.store.put, key, value(key, 1)) == 0, key
    tier.wait(lambda: tier.has_copies(keys), "copies of what was put")


def main():
    device = Device()
    mount(device.path)
    keys = [f"key-{number}" for number in range(KEYS)]
    with Tier("32MB") as tier:
        put(tier, keys)
        device.become("error_reads")
        found = [timed(tier.version, key) for key in keys]
        print(f"   {found.count(GONE)} of {KEYS} keys are misses", flush=True)
        assert found.count(GONE) > 0, "no read met the errors"
        tier.wait(lambda: sick_disks(tier) == 1, "name of the disk that fails reads")
        device.become()
        tier.wait(lambda: sick_disks(tier) == 0, "healthy disk")
        tier.wait(lambda: all(tier.version(key) == 1 for key in keys), "all that the disk has")

        device.become("error_writes")
        later = [f"key-{number}" for number in range(KEYS, KEYS + 100)]
        for key in later:
            assert timed(tier.store.put, key, value(key, 1)) == 0, key
        tier.wait(lambda: sick_disks(tier) == 1, "name of the disk that fails writes")
        for key in keys + later:
            timed(tier.version, key)
        device.become()
        # The file system has given its journal up. An operator mounts it again.
        subprocess.run(["umount", "--lazy", PLACE], check=True)
        mount(device.path)
        tier.wait(lambda: sick_disks(tier) == 0, "healthy disk")
        put(tier, [f"key-{number}" for number in range(KEYS + 100, KEYS + 120)])
        lost = [key for key in keys if timed(tier.version, key) == GONE]
        print(f"   {len(lost)} of {KEYS} keys from before are lost", flush=True)
        assert not lost, lost[:5]


if __name__ == "__main__":
    main()
