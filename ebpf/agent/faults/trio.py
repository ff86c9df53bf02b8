"""Three hosts on one network on which nothing is slow, but the traffic is uneven.

The host under test asks one of the others without much of a pause, and answers the third, who pauses after each question and so
acknowledges answers late. Then the requests stop. Whatever the agent names is innocent.
"""

from scene import Scene, ip

#: Host under test, the peer it asks, the peer that asks it.
HOSTS = (1, 2, 3)
NIC = "eth0"
ASKED_PER_SECOND = 300
#: Pauses of about 2, 5 and 10 ms.
ASKING_PER_SECOND = (500, 200, 100)
BLOCK = "64KiB"


def plug(switch, host, namespace):
    """The host is on the network of a switch, which comes with its first host."""
    if host == 1:
        ip("-n", switch, "link", "add", "switch", "type", "bridge")
        ip("-n", switch, "link", "set", "switch", "up")
    port = f"port{host}"
    ip("-n", switch, "link", "add", port, "type", "veth", "peer", "name", NIC, "netns", namespace)
    ip("-n", switch, "link", "set", port, "master", "switch", "up")
    ip("-n", namespace, "address", "add", f"198.18.77.{host}/24", "dev", NIC)
    ip("-n", namespace, "link", "set", NIC, "up")


class Trio(Scene):
    """As `Scene`, with other hosts and wires; `leave` ends those that ask from the host under test."""

    def build(self, ebpf):
        self.third, self.switch = f"{self.tag}q", f"{self.tag}s"
        self.namespaces += [self.third, self.switch]
        self.make_places()
        for host, namespace in zip(HOSTS, self.namespaces):
            plug(self.switch, host, namespace)
        _, mine = self.engine(self.here, self.address(1))
        _, asked = self.engine(self.there, self.address(2))
        self.agent(ebpf)
        self.wait_for_probes(1)
        self.askers = [
            self.engine(self.here, self.address(1), asked, ASKED_PER_SECOND, operation, BLOCK)
            for operation in ("write", "read")
        ]
        for rate in ASKING_PER_SECOND:
            self.engine(self.third, self.address(3), mine, rate, size=BLOCK)
        self.engine(self.third, self.address(3), mine, ASKING_PER_SECOND[1], "read", BLOCK)

    def address(self, host):
        return f"198.18.77.{host}"

    def leave(self):
        for asker in self.askers:
            asker.terminate()
            asker.wait(10)
