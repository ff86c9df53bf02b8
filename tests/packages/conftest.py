"""Where the things under test lie."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target")
#: What run.sh has installed.
TOOLS = Path(os.environ.get("PERIGEE_TOOLS") or TARGET / "tools")
TIMEOUT_S = 300


def run(*words, code=0, **options):
    """Run a command that must end with a code, unless that is None; return what it printed, on both channels."""
    done = subprocess.run(
        [str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=TIMEOUT_S,
        check=False, **options,
    )
    assert code is None or done.returncode == code, f"{words[0]} ended with {done.returncode}:\n{done.stdout}"
    return done.stdout


@pytest.fixture(scope="session")
def package():
    """The Debian package that `make deb` has built."""
    [found] = (TARGET / "debian").glob("perigee_*.deb")
    return found


@pytest.fixture(scope="session")
def unpacked(package, tmp_path_factory):
    """The files of the Debian package in a folder."""
    folder = tmp_path_factory.mktemp("package")
    run("dpkg-deb", "--extract", package, folder)
    return folder
