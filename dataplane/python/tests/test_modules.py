"""Modules of Mooncake that only start, or refuse, something here."""

import importlib
import subprocess
import sys

import pytest

import mooncake
from mooncake import allocator, buffer_pool, fabric_allocator_utils

TIMEOUT_S = 60


def test_the_package_has_mooncakes_names():
    assert mooncake.BufferPool is mooncake.RegisteredBufferPool is buffer_pool.BufferPool


def test_other_folders_may_add_modules(tmp_path):
    (tmp_path / "mooncake").mkdir()
    (tmp_path / "mooncake" / "__init__.py").write_text("")
    (tmp_path / "mooncake" / "extra.py").write_text("VALUE = 7")
    code = f"import sys; sys.path.append({str(tmp_path)!r}); import mooncake.extra as m; print(m.VALUE)"
    child = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=TIMEOUT_S
    )
    assert child.stdout.strip() == "7", child.stderr


@pytest.mark.parametrize("name", ["cli_client", "cli_bench"])
def test_a_program_runs_as_a_module(name):
    assert callable(importlib.import_module(f"mooncake.{name}").main)
    child = subprocess.run(
        [sys.executable, "-m", f"mooncake.{name}", "--help"],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    expected = {"cli_client": "mooncake_client", "cli_bench": "transfer_engine_bench"}[name]
    assert child.returncode == 0 and expected in child.stdout + child.stderr


@pytest.mark.parametrize("kind", [allocator.NVLinkAllocator, allocator.BarexAllocator])
def test_an_allocator_that_is_not_built_refuses(kind):
    with pytest.raises(NotImplementedError, match="is built"):
        kind.get_allocator("cuda:0")
    assert allocator.NVLinkAllocator.detect_mem_backend() is allocator.MemoryBackend.UNSUPPORTED


@pytest.mark.parametrize(
    "name",
    [
        "allocator_ascend_npu",
        "ep",
        "mooncake_elastic_buffer",
        "mooncake_ep_buffer",
        "mooncake_ssd_register",
        "mooncake_ssd_unregister",
        "pg",
        "spdk_tgt_create",
    ],
)
def test_a_module_that_is_not_built_says_so_when_it_is_imported(name):
    with pytest.raises(ImportError, match=f"mooncake.{name} is not built in Perigee: ") as raised:
        importlib.import_module(f"mooncake.{name}")
    assert raised.value.name == f"mooncake.{name}"


def test_allocator_libraries_are_missing_in_the_callers_words():
    with pytest.raises(ImportError, match="upgrade"):
        fabric_allocator_utils.get_mooncake_so_path("nvlink_allocator.so", "upgrade it")
    assert fabric_allocator_utils.probe_allocator_backend("x.so", "probe", int, -2) == -2
