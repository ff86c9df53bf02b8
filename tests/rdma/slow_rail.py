"""A rail made slow by netem, and whether the agent names it: in the virtual machine, with real verbs and no privilege used.

Two engines move small blocks over two rails each. The agent sees them at level 0: the engines' pages, the ports' counters. Then
packets of one rail take longer, on each rail in turn; the agent must name the device of that rail and nothing else, and nothing
before or after. Needs PERIGEE_BIN. Exit status 1 if a run was wrong; 0 with the line SKIP outside of the machine.
"""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request

# An emulated processor does in a minute what others do in a second.
LONG_S = 240
QUIET_S = 40
LOOK_S = 1
# Small blocks take milliseconds there, and what is less than three times as long is no verdict.
DELAY = os.environ.get("PERIGEE_SLOW_RAIL_DELAY", "10ms")
BLOCK = "4KiB"
DEPTH = 4


class Scene:
    def __init__(self, devices):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="slow-rail-", dir="/run"))
        # From memory: pages of programs come slowly from the host's disk.
        self.program = shutil.copy(os.environ["PERIGEE_BIN"], self.folder / "perigee")
        self.environment = dict(os.environ, PERIGEE_ACTIVITY_DIR=str(self.folder / "pages"), PERIGEE_LOG="info")
        self.processes = []
        near, far = ",".join(devices[:2]), ",".join(devices[2:4])
        target = self.start("bench", "nic", "--role=target", "--transport=rdma", f"--device={far}", "--buffer=16MiB")
        peer = self.read_until(target, "--peer").split("--peer ")[1].split()[0]
        self.load = (
            "bench", "nic", "--role=initiator", f"--peer={peer}", "--transport=rdma", f"--device={near}",
            "--buffer=16MiB", f"--size={BLOCK}", f"--depth={DEPTH}", "--operation=write", "--duration=3000s",
        )
        self.initiator = self.start(*self.load, out=subprocess.DEVNULL)
        agent = self.start("agent", "--port=0", "--state_dir=", "--ebpf=false", out=None, err=subprocess.PIPE)
        page = self.read_until(agent, "http://", agent.stderr)
        self.url = "http://" + page.split("http://")[1].split("/")[0].split('"')[0] + "/snapshot.json"

    def start(self, *words, out=subprocess.PIPE, err=None):
        process = subprocess.Popen([self.program, *words], stdout=out, stderr=err, text=True, env=self.environment)
        self.processes.append(process)
        return process

    @staticmethod
    def read_until(process, word, stream=None):
        for line in stream or process.stdout:
            print(line.rstrip(), flush=True)
            if word in line:
                return line
        raise SystemExit(f"{process.args} ended before it said {word}")

    def snapshot(self):
        # A guest that gets no processor for long has transfers run into their deadlines: the load begins again.
        if self.initiator.poll() is not None:
            self.initiator = self.start(*self.load, out=subprocess.DEVNULL)
        with urllib.request.urlopen(self.url, timeout=LONG_S) as answer:
            return json.load(answer)

    def close(self):
        for process in reversed(self.processes):
            process.send_signal(signal.SIGKILL)
            process.wait()
        shutil.rmtree(self.folder)


def blamed(snapshot):
    return {(suspect["kind"], suspect["name"]): suspect["evidence"] for suspect in snapshot["suspects"]}


def watch(scene, seconds, until):
    """All suspects until the condition held, and whether it did."""
    seen, end = {}, time.monotonic() + seconds
    while time.monotonic() < end:
        now = blamed(scene.snapshot())
        seen.update(now)
        if until(now):
            return seen, True
        time.sleep(LOOK_S)
    return seen, False


def wait_for_load(scene, devices):
    end = time.monotonic() + LONG_S
    while time.monotonic() < end:
        flows = scene.snapshot()["flows"]
        moving = {flow["device"] for flow in flows if flow["route"] == "rdma" and flow["operations"] > 0}
        if set(devices) <= moving:
            return
        time.sleep(LOOK_S)
    raise SystemExit(f"only {sorted(moving)} of {devices} move anything")


def rail(*words):
    subprocess.run([os.environ["PERIGEE_VM_RAIL"], *words], check=True)


def play(scene, number, device):
    rail("delay", str(number), DELAY)
    seen, is_named = watch(scene, LONG_S, lambda now: ("nic", device) in now)
    rail("clear", str(number))
    more, is_clear = watch(scene, LONG_S, lambda now: not now)
    seen |= more
    right = is_named and is_clear and set(seen) == {("nic", device)}
    print(f"{DELAY} on {device}: {'right' if right else 'WRONG'}: {seen or 'nothing'}", flush=True)
    return right


def main():
    devices = os.environ.get("PERIGEE_VM_DEVICES", "").split()
    if len(devices) < 4:
        print(f"SKIP: a slow rail needs 4 devices of the virtual machine, there are {len(devices)}")
        return 0
    scene = Scene(devices)
    try:
        wait_for_load(scene, devices[:2])
        quiet, _ = watch(scene, QUIET_S, lambda _: False)
        print(f"quiet: {quiet or 'nothing named'}", flush=True)
        rights = [play(scene, number, devices[number]) for number in (0, 1)]
    finally:
        scene.close()
    return 0 if all(rights) and not quiet else 1


if __name__ == "__main__":
    sys.exit(main())
