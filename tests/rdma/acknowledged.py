"""What calls on keys have answered, kept where a cut of the power does not reach, and what a disk may have after it.

Each line of the journal is written behind the answer that it tells of. A change is settled when the master has heard that the disk
has it for good: its copy is written, and whatever it replaced is void after a sync.
"""

import dataclasses
import json
import os

from tier import GONE


@dataclasses.dataclass
class Key:
    """Versions of one key, which count from 1; 0 is none."""

    acknowledged: int = GONE
    highest: int = 0
    settled: int = GONE
    # Since when that holds.
    settled_at: float = 0.0
    # The lowest version that may be found: whatever is below it was replaced or removed, and that was settled.
    lowest: int = 1

    def settle(self, now):
        """Note that what was acknowledged holds for good."""
        if self.settled != self.acknowledged:
            self.settled, self.settled_at = self.acknowledged, now
        self.lowest = self.highest + 1 if self.settled == GONE else self.settled

    def judge(self, found):
        """Return what is wrong with a version that was found, or None."""
        if found == GONE:
            return None
        # One put may have been under way.
        if found > self.highest + 1:
            return f"version {found} was never put, {self.highest} was the last one"
        if found < self.lowest:
            return f"version {found} was replaced or removed, which was settled: {self}"
        return None


class Journal:
    """The lines of all lives, and the keys as they tell of them."""

    def __init__(self, path):
        self.path = path
        self.keys = {}
        self.last = 0.0
        if path.exists():
            for line in path.read_text().splitlines():
                self._apply(json.loads(line))
        self._file = path.open("a")

    def note(self, now, **what):
        """Write a line and have it outlast this machine."""
        line = {"at": now, **what}
        self._apply(line)
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()
        os.fsync(self._file.fileno())

    def _apply(self, line):
        self.last = line["at"]
        if line["what"] == "settled":
            for key in self.keys.values():
                key.settle(line["at"])
        elif line["what"] == "found":
            # What a new life has found is all there is from now on.
            for name, version in line["versions"].items():
                key = self.keys[name]
                key.acknowledged, key.highest = version, max(key.highest, version)
                key.settled, key.settled_at = version, line["at"]
                key.settle(line["at"])
        else:
            key = self.keys.setdefault(line["key"], Key())
            key.acknowledged = line["version"]
            key.highest = max(key.highest, line["version"])
