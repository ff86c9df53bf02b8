"""Mooncake itself, from the package index, in a virtual environment of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PACKAGE = "mooncake-transfer-engine-non-cuda==0.3.13.post1"
INSTALL_TIMEOUT_S = 300


def target_folder():
    """The folder of everything that is built."""
    return Path(os.environ.get("CARGO_TARGET_DIR") or Path(__file__).parents[3] / "target")


def mooncake_python():
    """Return an interpreter whose `mooncake` is Mooncake's; installs it once, 46 MB."""
    folder = target_folder() / "venv-mooncake"
    python, stamp = folder / "bin" / "python", folder / "package.stamp"
    if stamp.exists() and stamp.read_text() == PACKAGE:
        return str(python)
    subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
    install = [python, "-m", "pip", "install", "--quiet", "--no-deps", PACKAGE]
    subprocess.run(install, check=True, timeout=INSTALL_TIMEOUT_S)
    stamp.write_text(PACKAGE)
    return str(python)
