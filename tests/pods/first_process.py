"""The first process of a pod: makes the pod's file system and network, then becomes the pod's command.

Called with the path of a JSON file that says how; runs in fresh namespaces.
"""

import ctypes
import json
import os
import socket
import struct
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


def make_folder(target, files, stage):
    """A folder that only this pod sees: its parent gets a layer of its own."""
    parent = os.path.dirname(target)
    run("mount", "-t", "tmpfs", "layer", stage)
    upper, work = os.path.join(stage, "upper"), os.path.join(stage, "work")
    os.mkdir(upper)
    os.mkdir(work)
    options = f"lowerdir={parent},upperdir={upper},workdir={work}"
    run("mount", "-t", "overlay", "overlay", "-o", options, parent)
    os.makedirs(target)
    for name, text in files.items():
        with open(os.path.join(target, name), "w") as file:
            file.write(text)
    run("umount", "--lazy", stage)


def make_files(pod):
    run("mount", "--make-rprivate", "/")
    run("mount", "-t", "proc", "proc", "/proc")
    run("mount", "-t", "tmpfs", "-o", f"size={pod['shm_bytes']}", "shm", "/dev/shm")
    for target, files in pod["folders"].items():
        make_folder(target, files, pod["stage"])
    for target, source in pod["files"].items():
        run("mount", "--bind", source, os.path.realpath(target))


def refuse_io_uring():
    """Refuses the calls of io_uring as the default seccomp profiles of container runtimes do."""
    first, last, eperm = 425, 427, 1
    program = [
        (0x20, 0, 0, 0),  # load the number of the call
        (0x35, 0, 2, first),
        (0x25, 1, 0, last),
        (0x06, 0, 0, 0x0005_0000 | eperm),
        (0x06, 0, 0, 0x7FFF_0000),  # allow
    ]
    code = b"".join(struct.pack("HBBI", *instruction) for instruction in program)
    buffer = ctypes.create_string_buffer(code)
    header = struct.pack("HxxxxxxP", len(program), ctypes.addressof(buffer))
    no_new_privileges, seccomp, filter_mode = 38, 22, 2
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    for arguments in ((no_new_privileges, 1, 0, 0, 0), (seccomp, filter_mode, header, 0, 0)):
        if prctl(*arguments) != 0:
            raise OSError(ctypes.get_errno(), "prctl")


def main():
    with open(sys.argv[1]) as file:
        pod = json.load(file)
    make_network(pod)
    socket.sethostname(pod["name"])
    make_files(pod)
    if pod["refuses_io_uring"]:
        refuse_io_uring()
    command = pod["command"]
    os.execvpe(command[0], command, pod["environment"])


if __name__ == "__main__":
    main()
