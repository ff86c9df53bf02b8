"""Runs Mooncake's own Python tests on the wheel of the Python that runs this, as `make test-upstream`.

    python tests/compat/upstream.py SOURCES [FILE...]

SOURCES is a checkout of Mooncake; nothing in it is changed, and of its code only tests are used. Each
file has a master, a metadata server and what else `scripts/run_tests.sh` starts for it, in a network
of its own where the kernel allows that, else on the ports that the tests expect. The numbers are
compared with `lists/python_tests.txt`; the exit code is 1 if one differs. Files that import torch
are compared only where it is installed.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from xml.etree import ElementTree

HERE = Path(__file__).resolve().parent
LIST = HERE / "lists" / "python_tests.txt"
FOLDERS = ("mooncake-wheel/tests", "scripts", "mooncake-reshard/tests")
APART = "PERIGEE_UPSTREAM_APART"
START_S, STOP_S, FILE_S = 60, 30, 900
MASTER_PORT, NODE_PORT, METADATA_PORT = 50051, 50052, 8080
METADATA = f"http://127.0.0.1:{METADATA_PORT}/metadata"
LEASE_MS = "500"
ENVIRONMENT = {
    "MC_METADATA_SERVER": METADATA,
    "DEFAULT_KV_LEASE_TTL": LEASE_MS,
    "MC_FORCE_TCP": "true",
    "PROTOCOL": "tcp",
}
# The tests of `scripts` read their configuration from these.
OF_SCRIPTS = {
    "MOONCAKE_MASTER": f"127.0.0.1:{MASTER_PORT}",
    "MOONCAKE_TE_META_DATA_SERVER": METADATA,
    "MOONCAKE_PROTOCOL": "tcp",
    "MOONCAKE_LOCAL_HOSTNAME": "127.0.0.1",
    "MOONCAKE_GLOBAL_SEGMENT_SIZE": "2gb",
    "MOONCAKE_LOCAL_BUFFER_SIZE": "1gb",
}
NOT_RUN = "# not run: "
PAIR = "test_multi_dummy_clients.py"
TARGET = "mooncake/ram/127.0.0.1:12345"


def opens(port: int) -> bool:
    """Say whether something listens."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def is_registered() -> bool:
    """Say whether the metadata server knows the target of the engine's tests."""
    try:
        with urllib.request.urlopen(f"{METADATA}?key={TARGET}", timeout=START_S):
            return True
    except urllib.error.HTTPError:
        return False


# What a file needs beside master and metadata server: a command, and what shows that it is ready.
BESIDE: dict[str, tuple[list[str], Callable[[], bool]]] = {
    "test_dummy_client.py": (["mooncake_client"], lambda: opens(NODE_PORT)),
    PAIR: (["mooncake_client"], lambda: opens(NODE_PORT)),
    "transfer_engine_initiator_test.py": (
        [sys.executable, "transfer_engine_target.py"], is_registered,
    ),
}


def listed() -> dict[str, tuple[int, int]]:
    """Return tests that pass and all tests of each file, as the list says."""
    lines = LIST.read_text(encoding="utf-8").splitlines()
    rows = [line.split(" ", 3) for line in lines if line and not line.startswith("#")]
    return {name: (int(passed), int(all_)) for name, passed, all_, _ in rows}


def not_run() -> set[str]:
    """Return the files that the list leaves out with a reason."""
    lines = LIST.read_text(encoding="utf-8").splitlines()
    return {line.removeprefix(NOT_RUN).split()[0] for line in lines if line.startswith(NOT_RUN)}


def is_comparable(path: Path) -> bool:
    """Say whether all that a file imports is installed."""
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    wants_torch = "import torch" in text or '("torch")' in text
    return not wants_torch or importlib.util.find_spec("torch") is not None


def copy_of(sources: Path, folder: Path) -> dict[str, Path]:
    """Copy the tests alone, so that none imports Mooncake's own modules; return them by name."""
    found = {}
    for part in FOLDERS:
        if not (sources / part).is_dir():
            sys.exit(f"{sources} has no folder {part}: name a checkout of Mooncake's repository")
        shutil.copytree(sources / part, folder / part)
        names = sorted([*(folder / part).glob("test_*.py"), *(folder / part).glob("*_test.py")])
        found |= {it.name: it for it in names}
    reshard = folder / "mooncake-reshard" / "tests"
    found = {name: it for name, it in found.items() if it.parent != reshard}
    found["reshard"] = reshard
    # The tests of engram want a folder of Mooncake's build, with its module `store`.
    build = folder / "build" / "mooncake-integration"
    build.mkdir(parents=True)
    (build / "store.py").write_text("from mooncake.store import *\n", encoding="utf-8")
    return found


@contextlib.contextmanager
def running(
    command: Sequence[str], is_ready: Callable[[], bool], log: Path, cwd: Path
) -> Iterator[None]:
    """Run a program beside the tests until they end; it must be ready in time."""
    with log.open("ab") as said:
        process = subprocess.Popen(
            command, stdout=said, stderr=said, cwd=cwd, env=os.environ | ENVIRONMENT
        )
    try:
        deadline = time.monotonic() + START_S
        while not is_ready():
            if process.poll() is not None or time.monotonic() > deadline:
                sys.exit(f"{' '.join(command)} does not start; it said:\n{log.read_text()}")
            time.sleep(0.05)
        yield
    finally:
        process.terminate()
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def counted(report: Path) -> tuple[int, int]:
    """Return tests that passed and all that ran, of a report of pytest; skipped ones did not run."""
    if not report.exists():
        return 0, 0
    cases = {}
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        # A test with parts has an entry for each of them in some versions.
        name = (case.get("classname"), case.get("name"))
        cases.setdefault(name, set()).update(child.tag for child in case)
    ran = [tags for tags in cases.values() if "skipped" not in tags]
    return sum(not tags & {"failure", "error"} for tags in ran), len(ran)


def as_pair(path: Path, environment: dict[str, str], log: Path) -> tuple[int, int]:
    """Run a file as two clients that wait for each other, each with one test: both pass, or none."""
    with log.open("wb") as said:
        clients = [
            subprocess.Popen(
                [sys.executable, str(path), "--client-id", client],
                cwd=path.parent, env=environment, stdout=said, stderr=said,
            )
            for client in ("client1", "client2")
        ]
        codes = []
        for client in clients:
            try:
                codes.append(client.wait(FILE_S))
            except subprocess.TimeoutExpired:
                client.kill()
                codes.append(client.wait())
    return int(not any(codes)), 1


def play(name: str, path: Path, folder: Path) -> tuple[int, int]:
    """Run one file; what it and the programs said is in logs."""
    log, report = folder / f"{name}.log", folder / f"{name}.xml"
    programs = folder / f"{name}.programs.log"
    cwd = path if path.is_dir() else path.parent
    environment = os.environ | ENVIRONMENT | (OF_SCRIPTS if cwd.name == "scripts" else {})
    environment["PYTHONPATH"] = str(HERE)
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "stand_ins"]
    words += [f"--rootdir={cwd}", f"--junitxml={report}", str(path)]
    master = ["mooncake_master", f"--default_kv_lease_ttl={LEASE_MS}"]
    metadata = ["mooncake_http_metadata_server", f"--port={METADATA_PORT}"]
    with contextlib.ExitStack() as stack:
        stack.enter_context(running(metadata, lambda: opens(METADATA_PORT), programs, folder))
        stack.enter_context(running(master, lambda: opens(MASTER_PORT), programs, folder))
        if name in BESIDE:
            stack.enter_context(running(*BESIDE[name], programs, cwd))
        if name == PAIR:
            return as_pair(path, environment, log)
        with log.open("wb") as said, contextlib.suppress(subprocess.TimeoutExpired):
            subprocess.run(words, cwd=cwd, env=environment, stdout=said, stderr=said, timeout=FILE_S)
    return counted(report)


def apart() -> None:
    """Begin again in a network of its own, if the kernel allows it."""
    if os.environ.get(APART) is None:
        os.environ[APART] = "no"
        unshare = ["unshare", "--map-root-user", "--net"]
        probe = [*unshare, "true"]
        if shutil.which("unshare") and subprocess.run(probe, capture_output=True).returncode == 0:
            os.environ[APART] = "yes"
            script = 'ip link set lo up && exec "$@"'
            os.execvp("unshare", [*unshare, "sh", "-c", script, "sh", sys.executable, *sys.argv])
    taken = [port for port in (MASTER_PORT, NODE_PORT, METADATA_PORT) if opens(port)]
    if taken:
        sys.exit(f"The tests need the ports {taken} of this host, which are in use")


def main() -> int:
    """Run the files, print a line for each, say which numbers are not those of the list."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sources", type=Path, help="a checkout of Mooncake's repository")
    parser.add_argument("files", nargs="*", help="files of the list (default: all)")
    parser.add_argument("--logs", type=Path, help="keep logs and reports in this folder")
    options = parser.parse_intermixed_args()
    expected = listed()
    unknown = [name for name in options.files if name not in expected]
    if unknown:
        parser.error(f"not in {LIST.name}: {', '.join(unknown)}")
    apart()
    os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    differ, total = [], [0, 0]
    with tempfile.TemporaryDirectory() as scratch:
        folder = (options.logs or Path(scratch)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        files = copy_of(options.sources.resolve(), Path(scratch) / "sources")
        for name in options.files or expected:
            got = play(name, files[name], folder) if name in files else (0, 0)
            total = [total[0] + got[0], total[1] + got[1]]
            said = ""
            if name in files and not is_comparable(files[name]):
                said = ", not compared: torch is not installed"
            elif got != expected[name]:
                differ.append(name)
                said = f", the list says {expected[name][0]} of {expected[name][1]}"
            print(f"{name}: {got[0]} of {got[1]} pass{said}", flush=True)
        known = set(expected) | not_run()
        new = [name for name, path in files.items()
               if name not in known and path.parent.name != "scripts"]
    print(f"{total[0]} of {total[1]} pass")
    if new:
        print(f"not on the list: {', '.join(new)}")
    if differ:
        print(f"not as the list says: {', '.join(differ)}")
    return 1 if differ or new else 0


if __name__ == "__main__":
    sys.exit(main())
