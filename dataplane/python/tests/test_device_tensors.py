"""Tensor calls with addresses of an accelerator, over a driver that stands in for CUDA's."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
TIMEOUT_S = 120


def test_tensor_calls_touch_no_address_of_an_accelerator(master_address, tmp_path):
    pytest.importorskip("numpy")
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler here")
    library = tmp_path / "libcuda.so.1"
    command = [compiler, "-shared", "-fPIC", "-o", str(library), str(FOLDER / "fake_driver.c")]
    subprocess.run(command, check=True)
    paths = [str(FOLDER), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "LD_LIBRARY_PATH": str(tmp_path), "PYTHONPATH": os.pathsep.join(paths)}
    program = [sys.executable, str(FOLDER / "device_tensors.py"), master_address]
    done = subprocess.run(
        program, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "device memory was staged" in done.stdout
