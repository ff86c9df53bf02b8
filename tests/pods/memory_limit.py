"""A memory limit by a control group of version 1 or 2, where this process may make one."""

import os
import time
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
REMOVE_S = 10


def _parent():
    """The folder below which groups can be made, and the name of the limit's file; nothing without rights."""
    first = ROOT / "memory"
    if first.is_dir():
        return first, "memory.limit_in_bytes"
    controllers = ROOT / "cgroup.controllers"
    if controllers.is_file() and "memory" in controllers.read_text().split():
        return ROOT, "memory.max"
    return None


class MemoryLimit:
    """A group with a limit; without rights, or without a limit, it does nothing."""

    def __init__(self, name, limit_bytes):
        self.folder = None
        parent = _parent()
        if parent is None or not limit_bytes:
            return
        folder = parent[0] / f"perigee-pods-{os.getpid()}-{name}"
        try:
            folder.mkdir()
            self.folder = folder
            (folder / parent[1]).write_text(str(limit_bytes))
        except OSError:
            self.close()

    def is_set(self):
        return self.folder is not None

    def add(self, process):
        if self.folder:
            (self.folder / "cgroup.procs").write_text(str(process))

    def close(self):
        """Removes the group; its processes have ended, but the kernel may need a moment."""
        folder, self.folder = self.folder, None
        deadline = time.monotonic() + REMOVE_S
        while folder and folder.exists():
            try:
                folder.rmdir()
            except OSError:
                if time.monotonic() > deadline:
                    return
                time.sleep(0.05)
