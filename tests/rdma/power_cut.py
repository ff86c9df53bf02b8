"""One life of a host whose disk takes objects, between two cuts of its power.

    power_cut.py FOLDER [--last]

Runs in the guest. It looks what the lives before have left on the disk: no other bytes than were put, nothing older than a change that was settled, nothing back that was removed
then, and of the copies that had been there for a while no more gone than a twentieth. Then it puts, replaces and removes objects until the machine is stopped on the spot, as the file
`cut` in FOLDER asks for, which is on the host, as the journal is. The last life only looks.
"""

import os
import pathlib
import random
import sys
import threading
import time

from acknowledged import Journal
from tier import GONE, Tier, mount, own_disk, value

CHANGES = 40
# The file system writes what says where bytes lie every five seconds, so a copy younger than that may go with the power.
YOUNG_S = 10
LOAD_S = 30
LEFT_MIN = 0.95
MISSING = -704


class Life:
    def __init__(self, folder):
        self.folder = folder
        self.journal = Journal(folder / "journal")
        self.tier = Tier("64MB")

    def look(self):
        """Hold what can be read against what was answered."""
        keys = self.journal.keys
        found = {name: self.tier.version(name) for name in keys}
        wrong = {name: key.judge(found[name]) for name, key in keys.items()}
        wrong = {name: text for name, text in wrong.items() if text}
        old = [name for name, key in keys.items() if key.settled == key.acknowledged != GONE
               and key.settled_at < self.journal.last - YOUNG_S]
        left = [name for name in old if found[name] != GONE]
        late = sum(found[name] != keys[name].acknowledged for name in keys)
        print(f"   {len(keys)} keys, {len(left)} of {len(old)} copies that were there for {YOUNG_S} s, {late} keys are not as the last answer "
              f"before the cut had them, {len(wrong)} wrong", flush=True)
        for name, text in wrong.items():
            print(f"   WRONG: {name}: {text}")
        assert not wrong
        assert len(left) >= LEFT_MIN * len(old)
        self.journal.note(time.monotonic(), what="found", versions=found)
        return len(old)

    def change(self, chance):
        """Put a new key, or replace or remove one."""
        keys, store = self.journal.keys, self.tier.store
        live = [name for name, key in keys.items() if key.acknowledged != GONE]
        name = chance.choice(live) if live and chance.random() < 0.4 else f"key-{len(keys)}"
        if name in keys and chance.random() < 0.4:
            code = store.remove(name, True)
            assert code in (0, MISSING), f"remove of {name} answers {code}"
            self.journal.note(time.monotonic(), what="remove", key=name, version=GONE)
            return
        version = keys[name].highest + 1 if name in keys else 1
        code = store.upsert(name, value(name, version))
        assert code == 0, f"upsert of {name} answers {code}"
        self.journal.note(time.monotonic(), what="put", key=name, version=version)

    def settle(self):
        """Wait until the disk has all copies, and what is void is so for good."""
        live = [name for name, key in self.journal.keys.items() if key.acknowledged != GONE]
        is_settled = lambda: self.tier.has_copies(live) and self.tier.metric("perigee_disk_tombstones") == 0  # noqa: E731
        self.tier.wait(is_settled, "settled disk")
        self.journal.note(time.monotonic(), what="settled")

    def load(self, chance):
        """Change keys until the power goes."""
        until = time.monotonic() + LOAD_S
        while time.monotonic() < until:
            for _ in range(CHANGES):
                self.change(chance)
            self.settle()
        threading.Timer(chance.uniform(0, 3), (self.folder / "cut").touch).start()
        while True:
            self.change(chance)


def main():
    folder, is_last = pathlib.Path(sys.argv[1]), "--last" in sys.argv[2:]
    mount(own_disk())
    life = Life(folder)
    known = life.look()
    if is_last:
        assert known > 0, "no copy was old enough to be held against"
        life.tier.store.close()
        return
    life.load(random.Random(os.environ.get("PERIGEE_SEED") or None))


if __name__ == "__main__":
    main()
