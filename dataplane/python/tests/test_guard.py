"""The name `mooncake` belongs to one package: beside compiled modules of Mooncake, ours refuse and say what to do."""

import importlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import mooncake
import pytest
from mooncake_venv import mooncake_python

import perigee_mooncake

TIMEOUT_S = 60
SITE = Path(mooncake.__file__).parents[1]
NOT_NEEDED = shutil.ignore_patterns("__pycache__", "mooncake_*", "lib*.so", "transfer_engine_bench")
OURS = ("mooncake", "perigee_mooncake", "perigee-mooncake.pth")

pytestmark = pytest.mark.skipif(
    not (SITE / "perigee-mooncake.pth").exists(), reason="the wheel is not installed; this is a source tree"
)


def real_site():
    """The folder of packages with Mooncake itself."""
    code = "import sysconfig; print(sysconfig.get_paths()['platlib'])"
    return Path(subprocess.check_output([mooncake_python(), "-c", code], text=True).strip())


def lay(site, ours, real, theirs=True):
    """Copy both packages into a folder; the second one overwrites what they share."""

    def take(source, names):
        for name in names:
            from_path, to_path = source / name, site / name
            if from_path.is_dir():
                shutil.copytree(from_path, to_path, dirs_exist_ok=True, ignore=NOT_NEEDED)
            else:
                shutil.copy(from_path, to_path)

    lists = [path.name for path in SITE.glob("perigee_mooncake-*.dist-info")]
    their_lists = [path.name for path in real.glob("mooncake_transfer_engine*.dist-info")]
    packages = [(SITE, [*OURS, *lists])]
    if theirs:
        packages.insert(0 if ours == "last" else 1, (real, ["mooncake", *their_lists]))
    for source, names in packages:
        take(source, names)


def run(site, code):
    """Run code in an interpreter whose only packages are in a folder."""
    start = f"import site; site.addsitedir({str(site)!r}); {code}"
    environment = {name: value for name, value in os.environ.items() if name != "PERIGEE_BIN"}
    return subprocess.run(
        [sys.executable, "-I", "-S", "-c", start], capture_output=True, text=True, timeout=TIMEOUT_S, env=environment
    )


@pytest.fixture(scope="module")
def real():
    return real_site()


@pytest.mark.parametrize("module", ["store", "engine"])
@pytest.mark.parametrize("ours", ["first", "last"])
def test_import_refuses_in_one_sentence_whichever_package_came_last(tmp_path, real, ours, module):
    lay(tmp_path, ours, real)
    child = run(tmp_path, f"import mooncake.{module}")
    assert child.returncode == 1, child.stdout
    last = child.stderr.strip().splitlines()[-1]
    assert last.startswith("ImportError: mooncake."), child.stderr
    for part in (str(tmp_path / "mooncake"), "engine.so and store.so", "pip uninstall mooncake-transfer-engine-non-cuda"):
        assert part in last


def test_without_the_other_package_import_works(tmp_path, real):
    lay(tmp_path, "last", real, theirs=False)
    child = run(tmp_path, "import mooncake.store, mooncake.engine; print(mooncake.store.__file__)")
    assert child.stdout == f"{tmp_path / 'mooncake' / 'store.py'}\n", child.stderr


def test_the_other_package_alone_is_no_business_of_the_guard(tmp_path):
    folder = tmp_path / "mooncake"
    folder.mkdir()
    (folder / "store.so").touch()
    (folder / "store.cpython-39-x86_64-linux-gnu.so").touch()
    guard = importlib.import_module("perigee_mooncake.guard")
    assert guard.Guard.find_spec("mooncake.store", [str(folder)]) is None
    (folder / "_perigee.abi3.so").touch()
    assert guard.Guard.find_spec("json", [str(folder)]) is None
    with pytest.raises(ImportError, match=r"store\.so of mooncake-transfer-engine in"):
        guard.Guard.find_spec("mooncake.store", [str(folder)])


@pytest.mark.parametrize("ours", ["first", "last"])
def test_the_doctor_starts_and_names_both_folder_and_package(tmp_path, real, ours):
    lay(tmp_path, ours, real)
    code = "import sys; sys.argv = ['perigee', 'doctor', '--only=packages', '--format=json']; "
    child = run(tmp_path, code + "from perigee_mooncake.program import perigee; perigee()")
    assert child.returncode == 1, child.stderr
    [check] = json.loads(child.stdout)["checks"]
    found = next(one for one in check["findings"] if one["subject"] == str(tmp_path / "mooncake"))
    assert "mooncake-transfer-engine-non-cuda" in found["message"]
    assert found["fix"].startswith("pip uninstall mooncake-transfer-engine-non-cuda && ")


def test_the_guard_costs_an_interpreter_no_further_modules():
    code = "import sys; before = set(sys.modules); import perigee_mooncake.guard; print(*sorted(set(sys.modules) - before))"
    folder = str(Path(perigee_mooncake.__file__).parents[1])
    child = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.append({folder!r}); {code}"],
        capture_output=True, text=True, timeout=TIMEOUT_S,
    )
    assert set(child.stdout.split()) <= {"__future__", "perigee_mooncake", "perigee_mooncake.guard"}, child.stderr
