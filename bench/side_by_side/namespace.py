"""A network of one's own: no port can clash with anything, and nothing outside is reached or reaches in.

Beside `lo` it holds a virtual pair with an address, because some implementations refuse to start where `lo` is all
there is.
"""

import os
import sys

MARK = "PERIGEE_BENCH_NAMESPACE"
ADDRESS = "10.91.0.1/24"
SET_UP = (
    "ip link set lo up && ip link add side0 type veth peer name side1 && "
    f"ip addr add {ADDRESS} dev side0 && ip link set side0 up && ip link set side1 up && exec \"$@\""
)


def enter():
    """Starts this program again in a new network namespace, unless it already runs in one."""
    if os.environ.get(MARK) == "1":
        return
    if os.geteuid() != 0:
        sys.exit("error: a private network namespace needs root; run this with sudo")
    inner = [sys.executable, "-m", __package__, *sys.argv[1:]]
    path = f"{os.environ.get('PATH', '/usr/bin')}:/usr/sbin:/sbin"
    environment = {**os.environ, "PATH": path, MARK: "1"}
    try:
        os.execvpe("unshare", ["unshare", "-n", "--", "sh", "-c", SET_UP, "sh", *inner], environment)
    except OSError as error:
        sys.exit(f"error: cannot run unshare: {error.strerror}; install util-linux and iproute2")
