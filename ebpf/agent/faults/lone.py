"""Two hosts on one network: the host under test has one NIC and asks one peer, which can be stopped and starved.

Its kernel acknowledges late what the peer does not answer, so round trips grow as if the NIC were slow. The peer is what is to be named.
"""

import os
import signal
import threading
import time

from scene import CPU_GROUPS, Scene
from trio import plug

ASKED_PER_SECOND = 40
BLOCK = "64KiB"
#: Of each second.
STOPPED_S = 0.3


class Lone(Scene):
    """As `Scene`, with other hosts and wires. The load has no real-time priority: quotas are for threads without it."""

    def __init__(self, log=None, ebpf=True):
        self.ended = None
        self.is_frozen = False
        super().__init__(log, ebpf, shielded=False)

    def build(self, ebpf):
        self.switch = f"{self.tag}s"
        self.namespaces += [self.switch]
        self.make_places()
        for host, namespace in zip((1, 2), (self.here, self.there)):
            plug(self.switch, host, namespace)
        self.agent(ebpf)
        self.peer, name = self.engine(self.there, self.address(2))
        self.engine(self.here, self.address(1), name, ASKED_PER_SECOND, "read", BLOCK)
        self.wait_for_probes(1)

    def address(self, host):
        return f"198.18.77.{host}"

    def stop(self):
        """The peer stands still for a part of each second, until `well`."""
        self.ended = threading.Event()

        def stop_and_go():
            while not self.ended.is_set():
                os.kill(self.peer.pid, signal.SIGSTOP)
                time.sleep(STOPPED_S)
                os.kill(self.peer.pid, signal.SIGCONT)
                time.sleep(1 - STOPPED_S)

        self.stopping = threading.Thread(target=stop_and_go)
        self.stopping.start()

    def freeze(self):
        """The peer stands still, until `well`: no exchange with it ends."""
        os.kill(self.peer.pid, signal.SIGSTOP)
        self.is_frozen = True

    def starve(self):
        """The peer's process gets 0.3 % of a core, until `well`."""
        group = CPU_GROUPS / self.tag
        (group / "cpu.cfs_period_us").write_text("1000000")
        (group / "cpu.cfs_quota_us").write_text("3000")
        (group / "cgroup.procs").write_text(str(self.peer.pid))

    def well(self):
        if self.ended:
            self.ended.set()
            self.stopping.join()
            self.ended = None
        if self.is_frozen:
            os.kill(self.peer.pid, signal.SIGCONT)
            self.is_frozen = False
        (CPU_GROUPS / "cgroup.procs").write_text(str(self.peer.pid))

    def close(self):
        if self.ended or self.is_frozen:
            self.well()
        super().close()
