"""Objects of tensors, exchanged with Mooncake itself."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from mooncake_venv import mooncake_python

numpy = pytest.importorskip("numpy", reason="Mooncake reads tensors with numpy")

import torch_stand_in as torch

from mooncake import _tensor
from mooncake._tensor_header import DTYPES, HEADER_BYTES, ITEM_BYTES, Shard, read_header, write_header

SHAPES = ([], [1], [3, 5], [0, 4], [2, 3, 4], [1] * 8)
TIMEOUT_S = 60


@pytest.fixture(autouse=True)
def torch_module(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", torch)


@pytest.fixture(scope="module")
def ask(tmp_path_factory):
    """Ask Mooncake to make and to read objects."""
    python = mooncake_python()
    folder = tmp_path_factory.mktemp("peer")
    here = Path(__file__).parent
    for name in ("mooncake_tensors.py", "torch_stand_in.py"):
        (folder / name).symlink_to(here / name)
    packages = Path(numpy.__file__).parents[1]
    for name in ("numpy", "numpy.libs"):
        if (packages / name).exists():
            (folder / name).symlink_to(packages / name)

    def asked(make=(), read=()):
        question = json.dumps({"make": list(make), "read": [value.hex() for value in read]})
        environment = {**os.environ, "PYTHONPATH": str(folder)}
        answer = subprocess.run(
            [python, str(folder / "mooncake_tensors.py")],
            input=question,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            env=environment,
            check=False,
        )
        assert answer.returncode == 0, answer.stderr
        return json.loads(answer.stdout)

    return asked


def test_headers_are_the_same_to_the_byte(ask):
    wanted = [{"dtype": dtype, "shape": shape} for dtype in DTYPES for shape in SHAPES]
    answer = ask(make=wanted)
    assert answer["bytes"] == HEADER_BYTES
    for one, made in zip(wanted, answer["made"]):
        value = bytes.fromhex(made)
        assert value[:HEADER_BYTES] == write_header(one["dtype"], one["shape"]), one
        found = read_header(value[:HEADER_BYTES], len(value))
        assert (found.dtype, list(found.shape)) == (one["dtype"], one["shape"])


def test_mooncake_reads_our_objects_and_our_shards(ask):
    values = numpy.arange(24, dtype=numpy.float32)
    tensor = torch.Tensor(values.reshape(4, 6), torch.float32)
    host, header = _tensor.pack(tensor)
    whole = header + host.array.tobytes()
    part = torch.Tensor(values.reshape(4, 6)[:, 3:].copy(), torch.float32)
    host, header = _tensor.pack(part, Shard((4, 6), 1, 2, 1))
    answer = ask(read=[whole, header + host.array.tobytes(), b"x" * 1000])["read"]
    assert answer[0] == {"dtype": "float32", "shape": [4, 6], "data": values.tobytes().hex()}
    assert answer[1]["shape"] == [4, 3] and answer[1]["data"] == part.array.tobytes().hex()
    assert answer[2] is None


def test_objects_of_older_forms_are_read_and_random_bytes_are_not():
    values = numpy.arange(6, dtype=numpy.int64)
    before = b"".join(
        number.to_bytes(4, "little") for number in (0x4D4F4F4E, 1, 256, DTYPES.index("int64"), 2, 0)
    )
    for number in (2, 3, 0, 0, 0, 0, 0, 0, 256, 48):
        before += number.to_bytes(8, "little")
    bare = DTYPES.index("int64").to_bytes(4, "little") + (2).to_bytes(4, "little")
    for number in (2, 3, -1, -1):
        bare += number.to_bytes(8, "little", signed=True)
    for header in (before.ljust(256, b"\0"), bare):
        value = bytearray(header + values.tobytes())
        found = _tensor.unpack(value)
        assert numpy.array_equal(found.array, values.reshape(2, 3))
        assert _tensor.unpack(value[:-1]) is None
        assert _tensor.unpack(value[: len(header) // 2]) is None
    assert _tensor.unpack(bytearray(bare + values.tobytes() + b"x")) is None
    random = numpy.random.default_rng(1)
    for size in (0, 40, 256, 304, 1000):
        assert all(_tensor.unpack(bytearray(random.bytes(size))) is None for _ in range(200))


@pytest.mark.parametrize("dtype, item", list(zip(DTYPES, ITEM_BYTES)))
def test_the_size_of_each_dtype_is_that_of_torch(dtype, item):
    kind = getattr(torch, dtype)
    assert torch.empty((1,), kind).element_size() == item
