"""Console scripts, the metadata server module and the async class."""

import asyncio
import json
import os
import platform
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import program

from mooncake import MOONCAKE_VERSION, __version__, cli
from mooncake.async_store import MooncakeDistributedStoreAsync
from mooncake.store import MooncakeDistributedStore
from perigee_mooncake.program import EXIT_NOT_EXECUTABLE

CHILD_TIMEOUT_S = 60
ISOLATED = (sys.executable, "-P")


@pytest.fixture
def echo_program(tmp_path, monkeypatch):
    """A program that prints its arguments and ends with 7, in place of the bundled one."""
    path = tmp_path / "program"
    path.write_text('#!/bin/sh\necho "$@"\nexit 7\n')
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PERIGEE_BIN", str(path))


def run(code, *arguments):
    return subprocess.run(
        [*ISOLATED, "-c", code, *arguments],
        capture_output=True,
        text=True,
        timeout=CHILD_TIMEOUT_S,
    )


@pytest.mark.parametrize(
    "name",
    [
        "mooncake_master",
        "mooncake_client",
        "mooncake_http_metadata_server",
        "transfer_engine_bench",
        "perigee",
    ],
)
def test_script_becomes_the_program_with_its_arguments(echo_program, name):
    child = run(f"from mooncake.cli import {name}; {name}()", "--port=1", "a b")
    assert (child.returncode, child.stdout) == (7, "--port=1 a b\n")


def test_metadata_server_module_becomes_the_program(echo_program):
    child = subprocess.run(
        [*ISOLATED, "-m", "mooncake.http_metadata_server", "--port", "1"],
        capture_output=True,
        text=True,
        timeout=CHILD_TIMEOUT_S,
    )
    assert (child.returncode, child.stdout) == (7, "--port 1\n")


def test_personality_is_the_first_argument(monkeypatch):
    def execute(*call):
        raise SystemExit(call)

    monkeypatch.setattr(os, "execv", execute)
    with pytest.raises(SystemExit) as ended:
        cli.execute("mooncake_master", ["--x"])
    assert ended.value.code == (cli.program_path(), ["mooncake_master", "--x"])


def test_missing_program_ends_with_127_and_says_why(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("PERIGEE_BIN", str(tmp_path / "none"))
    with pytest.raises(SystemExit) as ended:
        cli.execute("perigee", [])
    assert ended.value.code == 127 and "not found" in capsys.readouterr().err


def test_unusable_program_ends_with_126(monkeypatch, tmp_path, capsys):
    path = tmp_path / "text"
    path.write_text("no program")
    monkeypatch.setenv("PERIGEE_BIN", str(path))
    with pytest.raises(SystemExit) as ended:
        cli.execute("perigee", [])
    assert ended.value.code == 126 and str(path) in capsys.readouterr().err


def test_a_script_does_not_replace_itself_without_end(monkeypatch, tmp_path, capsys):
    script = tmp_path / "perigee"
    script.write_text("")
    monkeypatch.setenv("PERIGEE_BIN", str(script))
    monkeypatch.setattr(sys, "argv", [str(script), "status"])
    monkeypatch.setattr(os, "execv", lambda *_: pytest.fail("it became itself"))
    with pytest.raises(SystemExit) as ended:
        cli.perigee()
    assert ended.value.code == EXIT_NOT_EXECUTABLE
    assert "PERIGEE_BIN must name the program itself" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["mooncake_store_service", "transfer_engine_topology_dump"])
def test_programs_in_python_tell_their_version(name):
    command = [*ISOLATED, "-m", f"mooncake.{name}", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=CHILD_TIMEOUT_S)
    wanted = f"{name} version {__version__} (compatible with Mooncake {MOONCAKE_VERSION})\n"
    assert done.stdout == wanted, done.stderr


def bundled(*arguments):
    """What the program in the wheel prints; PERIGEE_BIN would name another one."""
    environment = {name: value for name, value in os.environ.items() if name != "PERIGEE_BIN"}
    command = [program("perigee"), *arguments]
    child = subprocess.run(command, capture_output=True, text=True, timeout=CHILD_TIMEOUT_S, env=environment)
    assert child.returncode == 0, child.stderr
    return child.stdout


def host_allows_probes():
    """Whether this process may load probes and the kernel has the hooks of `tasks`."""
    status = Path("/proc/self/status").read_text()
    held = int(re.search(r"^CapEff:\s*(\w+)", status, re.M)[1], 16)
    kernel = tuple(int(number) for number in platform.release().split(".")[:2])
    bpf, perfmon, net_admin = 39, 38, 12
    has_rights = all(held >> number & 1 for number in (bpf, perfmon, net_admin))
    return has_rights and kernel >= (6, 6) and Path("/sys/kernel/btf/vmlinux").exists()


def test_the_program_in_the_wheel_has_probes_and_they_attach():
    version = bundled("--version")
    if os.environ.get("PERIGEE_WITHOUT_PROBES") == "1":
        assert version.endswith(" without eBPF probes)\n")
        return
    assert version.endswith(" with eBPF probes)\n")
    rows = json.loads(bundled("agent", "--explain", "--format=json"))
    tasks = next(row for row in rows if row["name"] == "tasks")
    assert "no eBPF probes" not in tasks["reason"]
    if host_allows_probes():
        assert tasks["state"] == "on", tasks


def test_every_method_has_an_awaitable_form():
    names = [name for name in dir(MooncakeDistributedStore) if not name.startswith("_")]
    assert all(hasattr(MooncakeDistributedStoreAsync, f"async_{name}") for name in names)


def test_awaitable_forms_answer_like_the_plain_ones():
    async def use():
        store = MooncakeDistributedStoreAsync()
        results = await asyncio.gather(
            store.async_put("k", b"v"), store.async_get("k"), store.async_batch_is_exist(["k"])
        )
        return [*results, await store.async_health_check(), await store.async_close()]

    assert asyncio.run(use()) == [-600, b"", [-600], 1, 0]


@pytest.mark.cluster
def test_awaitable_forms_reach_the_cluster(master_address):
    async def use():
        store = MooncakeDistributedStoreAsync()
        code = await store.async_setup(
            "127.0.0.1", "P2PHANDSHAKE", 0, 1 << 24, "tcp", "", master_address
        )
        assert code == 0
        keys = [f"async{i}" for i in range(20)]
        codes = await asyncio.gather(*(store.async_put(key, key.encode()) for key in keys))
        values = await asyncio.gather(*map(store.async_get, keys))
        await store.async_batch_remove(keys, True)
        assert await store.async_close() == 0
        return codes, values, keys

    codes, values, keys = asyncio.run(use())
    assert codes == [0] * 20 and values == [key.encode() for key in keys]
