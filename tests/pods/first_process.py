"""The first process of a pod: makes the pod's file system and network, then becomes the pod's command.

Called with the path of a JSON file that says how; runs in fresh namespaces.
"""

import json
import os
import socket
import subprocess
import sys
import time

INTERFACE = "eth0"
WAIT_S = 60
POLL_S = 0.01


def run(*command):
    subprocess.run(command, check=True, timeout=WAIT_S)


def wait_for_interface():
    deadline = time.monotonic() + WAIT_S
    while INTERFACE not in [name for _, name in socket.if_nameindex()]:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{INTERFACE} did not come within {WAIT_S} s")
        time.sleep(POLL_S)


def make_network(pod):
    wait_for_interface()
    run("ip", "link", "set", "lo", "up")
    run("ip", "address", "add", f"{pod['address']}/{pod['prefix']}", "dev", INTERFACE)
    run("ip", "link", "set", INTERFACE, "up")
    run("ip", "route", "add", "default", "via", pod["gateway"])


def make_files(pod):
    run("mount", "--make-rprivate", "/")
    run("mount", "-t", "proc", "proc", "/proc")
    run("mount", "-t", "tmpfs", "-o", f"size={pod['shm_bytes']}", "shm", "/dev/shm")
    for target, source in pod["files"].items():
        run("mount", "--bind", source, os.path.realpath(target))


def main():
    with open(sys.argv[1]) as file:
        pod = json.load(file)
    make_network(pod)
    socket.sethostname(pod["name"])
    make_files(pod)
    command = pod["command"]
    os.execvpe(command[0], command, pod["environment"])


if __name__ == "__main__":
    main()
