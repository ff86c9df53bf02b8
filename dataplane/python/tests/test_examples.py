"""Every file of docs/examples, run as a reader of the book runs it."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[3] / "docs" / "examples"
TIMEOUT_S = 120


def run(name, *arguments):
    """Return what the example printed; fail the test with its output if it failed."""
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name), *arguments],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_no_example_is_left_out():
    # Those in Rust are played by tests/rust_client.
    assert {file.name for file in EXAMPLES.glob("*.py")} == {"put_get.py", "engine_write.py"}


@pytest.mark.cluster
def test_put_get(store, master_address):
    assert "compared 17 objects" in run("put_get.py", master_address)
    assert store.batch_is_exist(["example/greeting", "example/block/0"]) == [0, 0]


def test_engine_write():
    target = subprocess.Popen(
        [sys.executable, str(EXAMPLES / "engine_write.py"), "target"],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        name, address = target.stdout.readline().split()
        assert "wrote 1048576 bytes" in run("engine_write.py", "write", name, address)
        assert "the message 'done'" in target.communicate(timeout=TIMEOUT_S)[0]
        assert target.returncode == 0
    finally:
        target.kill()
        target.wait()
