"""Hosts that are network namespaces: rails between all of them over bridges, and faults of single wires."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import tempfile
from pathlib import Path

from cluster import PROGRAM, run, until

RAILS = ("rail0", "rail1")
RELAY = Path(__file__).resolve().parents[1] / "faults" / "relay.py"


class Hosts:
    """So many hosts, each with two rails and a NIC for management; the switch is a namespace with a bridge per network."""

    def __init__(self, count):
        self.tag = f"pg{secrets.token_hex(3)}"
        self.names = [f"node{number}" for number in range(count)]
        self.folder = tempfile.TemporaryDirectory(prefix="perigee-hosts-")
        self.processes = []
        self.relays = {}
        self.switch = f"{self.tag}-switch"
        try:
            self.build()
        except BaseException:
            self.close()
            raise

    def build(self):
        run("ip", "netns", "add", self.switch)
        for network in (*RAILS, "mgmt"):
            run("ip", "-n", self.switch, "link", "add", f"br-{network}", "type", "bridge")
            run("ip", "-n", self.switch, "link", "set", f"br-{network}", "up")
        for number, name in enumerate(self.names):
            space = self.space(name)
            run("ip", "netns", "add", space)
            run("ip", "-n", space, "link", "set", "lo", "up")
            for place, network in enumerate((*RAILS, "mgmt")):
                port = f"{network}-{number}"
                run(
                    "ip", "-n", space, "link", "add", network, "type", "veth",
                    "peer", "name", port, "netns", self.switch,
                )
                run("ip", "-n", self.switch, "link", "set", port, "master", f"br-{network}", "up")
                run("ip", "-n", space, "address", "add", f"{self.address(name, place)}/24", "dev", network)
                run("ip", "-n", space, "link", "set", network, "up")

    def space(self, name):
        return f"{self.tag}-{name}"

    def address(self, name, network=2):
        """By the number of the network; that for management if none is given."""
        return f"198.19.{network}.{self.names.index(name) + 1}"

    def inside(self, name, *words):
        """Words that run a command on a host, with a name of its own."""
        return ["ip", "netns", "exec", self.space(name), "unshare", "--uts", "sh", "-c", f'hostname {name}; exec "$@"', "sh", *words]

    def start(self, name, *words):
        log = open(Path(self.folder.name) / f"{name}-{len(self.processes)}.log", "w")
        environment = dict(os.environ, PERIGEE_ACTIVITY_DIR=f"{self.folder.name}/{name}")
        process = subprocess.Popen(
            self.inside(name, *words), stdout=log, stderr=subprocess.STDOUT, env=environment, stdin=subprocess.DEVNULL
        )
        self.processes.append((process, log.name))
        return process

    def call(self, name, *words, timeout=300):
        """A command of a host, whatever its exit status is."""
        return subprocess.run(self.inside(name, *words), capture_output=True, text=True, timeout=timeout)

    def serve(self):
        """Each host but the first lets others measure it."""
        for name in self.names[1:]:
            self.start(name, PROGRAM, "check", "--serve")
        for name in self.names[1:]:
            until(lambda name=name: self.is_open(name), f"server on {name}")

    def is_open(self, name):
        listening = run("ip", "netns", "exec", self.space(name), "ss", "-Hltn", "sport", "=", ":9306")
        return bool(listening.strip())

    # Faults of the wire of a host's NIC; both directions where nothing else is said.

    def shape(self, name, nic, rate):
        number = self.names.index(name)
        for space, device in ((self.space(name), nic), (self.switch, f"{nic}-{number}")):
            run("ip", "netns", "exec", space, "tc", "qdisc", "replace", "dev", device, "root", "tbf",
                "rate", rate, "burst", "32kb", "latency", "50ms")

    def frames(self, name, nic, mtu):
        run("ip", "-n", self.space(name), "link", "set", nic, "mtu", str(mtu))

    def lose(self, name, nic, per_mille):
        """Puts a relay that loses frames of both directions in the place of the wire; one that is there loses more or less."""
        if (name, nic) not in self.relays:
            self.relay(name, nic)
        relay = self.relays[name, nic]
        relay.stdin.write(f"0 {per_mille}\n")
        relay.stdin.flush()

    def relay(self, name, nic):
        number, space = self.names.index(name), self.space(name)
        network = RAILS.index(nic)
        run("ip", "-n", space, "link", "delete", nic)
        near, far = (f"{self.tag}{end}{len(self.relays)}" for end in "nf")
        relay = subprocess.Popen(
            [sys.executable, str(RELAY), near, far], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.processes.append((relay, None))
        self.relays[name, nic] = relay
        assert relay.stdout.readline() == "ready\n"
        for device, owner, title in ((near, space, nic), (far, self.switch, f"{nic}-{number}")):
            run("ip", "link", "set", device, "netns", owner)
            run("ip", "-n", owner, "link", "set", device, "name", title)
        run("ip", "-n", self.switch, "link", "set", f"{nic}-{number}", "master", f"br-{nic}", "up")
        run("ip", "-n", space, "address", "add", f"{self.address(name, network)}/24", "dev", nic)
        run("ip", "-n", space, "link", "set", nic, "up")

    def cut(self, name, nic):
        """The carrier stays, and nothing passes."""
        run("ip", "-n", self.switch, "link", "set", f"{nic}-{self.names.index(name)}", "nomaster")

    def close(self):
        for process, _ in reversed(self.processes):
            process.kill()
        for process, _ in self.processes:
            process.wait()
        for name in (*self.names, "switch"):
            subprocess.run(["ip", "netns", "delete", f"{self.tag}-{name}"], check=False, capture_output=True)
        self.folder.cleanup()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
