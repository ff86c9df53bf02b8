"""The metadata service beside a Python program, as Mooncake's class of that name."""

import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request

import pytest
from conftest import START_TIMEOUT_S, free_ports, listens, wait_until

from mooncake.http_metadata_server import KVBootstrapServer, KVPoll


def call(port, method, key, body=None):
    """Return status and body of a call."""
    url = f"http://127.0.0.1:{port}/metadata?key={key}"
    request = urllib.request.Request(url, data=body, method=method)
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def test_a_program_starts_and_ends_the_service():
    (port,) = free_ports(1)
    server = KVBootstrapServer(port, host="127.0.0.1")
    assert server.poll() is KVPoll.Failed
    thread = server.run()
    try:
        assert server.run() is thread, "once"
        wait_until(lambda: listens(port), START_TIMEOUT_S, "the service")
        assert server.poll() is KVPoll.Success
        assert call(port, "PUT", "a", b"value")[0] == 200
        assert call(port, "GET", "a") == (200, b"value")
        assert call(port, "GET", "")[0] == 400
    finally:
        server.close()
    assert server.poll() is KVPoll.Failed and not listens(port)


def test_a_port_that_is_taken_is_a_failure():
    (port,) = free_ports(1)
    first, second = (KVBootstrapServer(port, host="127.0.0.1") for _ in range(2))
    first.run()
    try:
        wait_until(lambda: listens(port), START_TIMEOUT_S, "the first service")
        second.run()
        wait_until(lambda: second.poll() is KVPoll.Failed, START_TIMEOUT_S, "the second's end")
    finally:
        first.close()
        second.close()


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel ends it")
def test_the_service_ends_with_a_program_that_is_killed():
    (port,) = free_ports(1)
    lines = [
        "import threading",
        "from mooncake.http_metadata_server import KVBootstrapServer",
        f"KVBootstrapServer({port}, '127.0.0.1').run()",
        "threading.Event().wait()",
    ]
    program = subprocess.Popen([sys.executable, "-c", "\n".join(lines)])
    try:
        wait_until(lambda: listens(port), START_TIMEOUT_S, "the service")
    finally:
        os.kill(program.pid, signal.SIGKILL)
        program.wait()
    wait_until(lambda: not listens(port), START_TIMEOUT_S, "the end of the service")
