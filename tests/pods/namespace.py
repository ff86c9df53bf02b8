"""Moves this process into a network and mount namespace of its own, with a bridge for pods.

Without root it takes a user namespace as well; where that is not allowed, `enter` says so.
"""

import ctypes
import os
import subprocess

CLONE_NEWNS = 0x00020000
CLONE_NEWUSER = 0x10000000
CLONE_NEWNET = 0x40000000
BRIDGE = "pods"
GATEWAY = "10.88.0.1"
PREFIX = 16


class NotAllowed(Exception):
    """This host does not let us make namespaces."""


def run(*command):
    """Runs a tool; its complaint is part of the error."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    if done.returncode != 0:
        raise OSError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


def enter():
    """Enters the namespaces; everything this process starts from now on is in them, too."""
    user, group = os.geteuid(), os.getegid()
    flags = CLONE_NEWNS | CLONE_NEWNET | (CLONE_NEWUSER if user else 0)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(flags) != 0:
        raise NotAllowed(os.strerror(ctypes.get_errno()))
    if user:
        for name, text in (
            ("setgroups", "deny"),
            ("uid_map", f"0 {user} 1"),
            ("gid_map", f"0 {group} 1"),
        ):
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)
    try:
        run("mount", "--make-rprivate", "/")
        # A fixed address: the bridge's own would move with each new port, and peers would lose it.
        run("ip", "link", "add", BRIDGE, "address", "02:00:0a:58:00:01", "type", "bridge")
    except OSError as error:
        raise NotAllowed(str(error)) from error
    run("ip", "address", "add", f"{GATEWAY}/{PREFIX}", "dev", BRIDGE)
    run("ip", "link", "set", BRIDGE, "up")
    run("ip", "link", "set", "lo", "up")
