"""Variables of Mooncake that have no effect are named once per process, at setup and initialize."""

import os
import subprocess
import sys

import pytest

CHILD_TIMEOUT_S = 60
VARIABLES = {"MOONCAKE_AWS_SECRET_ACCESS_KEY": "hush", "MC_MAX_WR": "512", "MC_NUM_QP_PER_EP": "2"}
SETUP = """
from mooncake.store import MooncakeDistributedStore
for _ in range(2):
    MooncakeDistributedStore().setup(
        "127.0.0.1", "P2PHANDSHAKE", 0, 1 << 20, "tcp", "", "127.0.0.1:1")
"""
INITIALIZE = """
from mooncake.engine import TransferEngine
for _ in range(2):
    TransferEngine().initialize("127.0.0.1:0", "P2PHANDSHAKE", "tcp", "")
"""


def log_of(code, **variables):
    """Run a program in an interpreter of its own; return what it logs."""
    environment = {**os.environ, **VARIABLES, **variables}
    child = subprocess.run(
        [sys.executable, "-P", "-c", code],
        capture_output=True,
        text=True,
        timeout=CHILD_TIMEOUT_S,
        env=environment,
    )
    assert child.returncode == 0, child.stdout + child.stderr
    return child.stderr


@pytest.mark.parametrize("code", [SETUP, INITIALIZE, SETUP + INITIALIZE])
def test_variables_without_effect_are_named_once(code):
    log = log_of(code)
    assert log.count("MOONCAKE_AWS_SECRET_ACCESS_KEY is set and has no effect") == 1
    assert "hush" not in log
    # Those that are not needed share a line, which Python's default level shows.
    (line,) = [line for line in log.splitlines() if "MC_MAX_WR" in line]
    assert "Set and not needed" in line and "WARN" in line
    assert "MC_NUM_QP_PER_EP" not in log


def test_the_level_and_the_folder_of_mooncake_are_those_of_the_log(tmp_path):
    log = log_of(INITIALIZE, MC_LOG_LEVEL="INFO", MC_LOG_DIR=str(tmp_path))
    (file,) = tmp_path.glob("perigee-python.*.log")
    assert "MC_MAX_WR" in file.read_text() and "MC_MAX_WR" not in log
    assert "AWS_SECRET" not in log_of(INITIALIZE, MC_LOG_LEVEL="ERROR")


def test_a_level_or_a_folder_that_cannot_be_used_is_named():
    log = log_of(INITIALIZE, MC_LOG_LEVEL="loud", MC_LOG_DIR="/no/such/folder")
    assert "MC_LOG_LEVEL" in log and "write TRACE" in log
    assert "MC_LOG_DIR cannot be used" in log
