"""A host under test with two NICs, a shard that serves, and a disk; and the host on the other side of the wires.

Everything is real: network namespaces, TCP over two wires, engines, a loop device, the agent with its probes. Every part can be
made slow and well again. All names carry the number of this process, and `close` removes everything.
"""

import itertools
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parents[2]
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
BUILT = TARGET / f"{os.uname().machine}-unknown-linux-gnu" / "release"
PERIGEE = os.environ.get("PERIGEE_BIN", str(BUILT / "perigee"))
NICS = ("rail0", "rail1")
CGROUP2 = pathlib.Path("/sys/fs/cgroup/unified")
CPU_GROUPS = pathlib.Path("/sys/fs/cgroup/cpu")
DISK_GROUPS = pathlib.Path("/sys/fs/cgroup/blkio")
BLOCKS_PER_SECOND = 150
DISK_BYTES = 32 << 20
START_S = 60
PRIORITY = 20


#: Of the scenes of this process.
NUMBERS = itertools.count()


class Missing(Exception):
    """What this machine lacks for a scene."""


def check():
    if os.geteuid() != 0:
        raise Missing("only root can make namespaces, throttle threads and load probes")
    for path in ("/dev/net/tun", "/dev/loop-control", CGROUP2, CPU_GROUPS, DISK_GROUPS):
        if not os.path.exists(path):
            raise Missing(f"{path} is not there")


def ip(*words):
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


class Scene:
    def __init__(self, log=None, ebpf=True, shielded=True):
        """Shielded, the load runs with real-time priority: other work on this machine is not a fault of the scene then."""
        check()
        self.shield = ["chrt", "--fifo", str(PRIORITY)] if shielded else []
        self.tag = f"pf{os.getpid()}-{next(NUMBERS)}"
        self.here, self.there = f"{self.tag}h", f"{self.tag}r"
        self.namespaces = [self.here, self.there]
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="perigee-faults-"))
        self.log = open(log or self.folder / "log", "w")
        self.processes = []
        self.wires = []
        self.loop = None
        self.port = 0
        try:
            self.build(ebpf)
        except BaseException:
            self.close()
            raise

    def build(self, ebpf):
        self.make_places()
        for index in range(len(NICS)):
            self.wires.append(self.wire(index))
        self.make_disk()
        servers = self.serve()
        self.agent(ebpf)
        self.wait_for_probes(len(NICS))
        self.send(servers)

    def make_places(self):
        for name in self.namespaces:
            ip("netns", "add", name)
            ip("-n", name, "link", "set", "lo", "up")
        for group in self.groups():
            group.mkdir()

    def wait_for_probes(self, processes):
        """The probe on round trips sees connections that are made after the agent has found their processes."""
        deadline = time.monotonic() + START_S
        while len(self.snapshot()["processes"]) < processes:
            if time.monotonic() > deadline:
                raise Missing("the agent does not see the engines")
            time.sleep(0.2)

    def groups(self):
        return [*(CGROUP2 / name for name in self.namespaces), CPU_GROUPS / self.tag, DISK_GROUPS / self.tag]

    def start(self, words, namespace=None, group=None, **more):
        """A process of the scene, in a namespace and a control group of its host."""
        if namespace:
            words = ["ip", "netns", "exec", namespace, *words]
        if group:
            words = ["sh", "-c", f'echo $$ > {group}/cgroup.procs; exec "$@"', "sh", *words]
        environment = dict(os.environ, PERIGEE_ACTIVITY_DIR=str(self.folder / (namespace or "none")))
        options = {"stdout": subprocess.PIPE, "stderr": self.log, "text": True, "env": environment} | more
        process = subprocess.Popen(words, **options)
        self.processes.append(process)
        return process

    def wire(self, index):
        near, far = f"{self.tag}n{index}", f"{self.tag}f{index}"
        relay = self.start([sys.executable, str(HERE / "relay.py"), near, far], stdin=subprocess.PIPE)
        if relay.stdout.readline() != "ready\n":
            raise Missing("a tap device cannot be made")
        for device, namespace, host in ((near, self.here, 1), (far, self.there, 2)):
            ip("link", "set", device, "netns", namespace)
            ip("-n", namespace, "link", "set", device, "name", NICS[index])
            ip("-n", namespace, "address", "add", f"198.18.{index}.{host}/24", "dev", NICS[index])
            ip("-n", namespace, "link", "set", NICS[index], "up")
        return relay

    def engine(self, namespace, local, peer=None, per_second=BLOCKS_PER_SECOND, operation="write", size="4KiB"):
        """An engine that serves, or one that moves a block at a time to or from its peer, so many in a second."""
        words = [*self.shield, PERIGEE, "bench", "nic", f"--name={local}", "--transport=tcp", "--buffer=1MiB"]
        if peer:
            load = [f"--operation={operation}", f"--size={size}", f"--rate={per_second}", "--duration=24h"]
            return self.start([*words, "--role=initiator", f"--peer={peer}", *load], namespace, CGROUP2 / namespace)
        process = self.start([*words, "--role=target"], namespace, CGROUP2 / namespace)
        ready = process.stdout.readline()
        if not ready.startswith("Target ready: "):
            raise Missing(f"an engine does not start: {ready}")
        return process, ready.split()[-1]

    def serve(self):
        """An engine at each end of each wire; those of this host first."""
        servers = []
        for index in range(len(NICS)):
            server, near = self.engine(self.here, f"198.18.{index}.1")
            _, far = self.engine(self.there, f"198.18.{index}.2")
            servers.append((server, near, far))
        self.server = servers[0][0]
        return servers

    def send(self, servers):
        """Over each wire one engine of this host writes to the other host, and one of the other host writes to this one."""
        for index, (_, near, far) in enumerate(servers):
            self.engine(self.here, f"198.18.{index}.1", far)
            self.engine(self.there, f"198.18.{index}.2", near)

    def make_disk(self):
        backing = self.folder / "disk"
        backing.write_bytes(os.urandom(DISK_BYTES))
        made = subprocess.run(
            ["losetup", "--find", "--show", "--direct-io=on", str(backing)],
            check=True, capture_output=True, text=True,
        )
        self.loop = made.stdout.strip()
        device = os.stat(self.folder).st_dev
        # Throttling knows whole disks only.
        whole = pathlib.Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}").resolve()
        if (whole / "partition").exists():
            whole = whole.parent
        self.backing = (whole / "dev").read_text().strip()
        reader = [*self.shield, sys.executable, str(HERE / "reader.py"), self.loop]
        self.start(reader, group=DISK_GROUPS / self.tag)

    def agent(self, ebpf):
        # A fresh /sys has no control groups in it.
        words = [
            "sh", "-c", 'mount -t cgroup2 none /sys/fs/cgroup && exec "$@"', "sh", PERIGEE, "agent", "--port=0",
            "--state_dir=", f"--ebpf={str(ebpf).lower()}",
        ]
        process = self.start(words, self.here, stderr=subprocess.STDOUT)
        deadline = time.monotonic() + START_S
        for line in process.stdout:
            self.log.write(line)
            if "http://" in line:
                self.port = int(line.split("http://127.0.0.1:")[1].split("/")[0])
                break
            if time.monotonic() > deadline:
                break
        if not self.port:
            raise Missing("the agent does not start; see its log")
        # Its port is in the namespace of the host under test.
        self.asker = self.start(
            [sys.executable, str(HERE / "ask.py"), str(self.port)], self.here, stdin=subprocess.PIPE
        )

    def snapshot(self):
        self.asker.stdin.write("\n")
        self.asker.stdin.flush()
        return json.loads(self.asker.stdout.readline())

    # The faults.

    def spoil(self, nic, microseconds=0, per_mille=0):
        """Delays frames that leave over the NIC, and loses some of both directions."""
        relay = self.wires[NICS.index(nic)]
        relay.stdin.write(f"{microseconds} {per_mille}\n")
        relay.stdin.flush()

    def shard_thread(self):
        tasks = pathlib.Path(f"/proc/{self.server.pid}/task")
        for task in tasks.iterdir():
            if (task / "comm").read_text().strip() == "perigee-engine":
                return int(task.name)
        raise Missing("the engine has no shard thread")

    def starve(self, is_starved):
        """The serving shard gets a two-hundredth of a core: far less than it needs, even when it sleeps between requests."""
        group, thread = CPU_GROUPS / self.tag, self.shard_thread()
        (group / "cpu.cfs_period_us").write_text("1000000")
        (group / "cpu.cfs_quota_us").write_text("5000")
        if is_starved:
            # Quotas are for threads without real-time priority.
            os.sched_setscheduler(thread, os.SCHED_OTHER, os.sched_param(0))
            (group / "tasks").write_text(str(thread))
        else:
            (CPU_GROUPS / "tasks").write_text(str(thread))
            if self.shield:
                os.sched_setscheduler(thread, os.SCHED_FIFO, os.sched_param(PRIORITY))

    def throttle(self, requests_per_second):
        """0 lifts the limit."""
        limit = DISK_GROUPS / self.tag / "blkio.throttle.read_iops_device"
        limit.write_text(f"{self.backing} {requests_per_second}")

    def close(self):
        for process in reversed(self.processes):
            process.send_signal(signal.SIGTERM)
        for process in self.processes:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if self.loop:
            subprocess.run(["losetup", "--detach", self.loop], check=False)
        for name in self.namespaces:
            subprocess.run(["ip", "netns", "delete", name], check=False, capture_output=True)
        for group in self.groups():
            if group.exists():
                group.rmdir()
        subprocess.run(["rm", "-rf", str(self.folder)], check=False)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
