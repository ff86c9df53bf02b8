"""The package index of `make index`: pip installs ours where Mooncake's name is asked for."""

import subprocess
import sys

import pytest
from conftest import TARGET, run

INDEX = TARGET / "index"


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """A virtual environment that sees what the tests' own has (aiohttp), but not its mooncake."""
    folder = tmp_path_factory.mktemp("environment") / "venv"
    run(sys.executable, "-m", "venv", folder)
    return folder / "bin" / "python"


def install(python, *words):
    return run(python, "-m", "pip", "install", "--no-deps", "--index-url", INDEX.as_uri(), *words)


def test_mooncakes_name_installs_perigee(environment):
    resolved = run(
        environment, "-m", "pip", "install", "--dry-run", "--no-deps", "--index-url", INDEX.as_uri(), "mooncake-transfer-engine"
    )
    assert "mooncake-transfer-engine-0.3.13.post1+perigee" in resolved
    install(environment, "mooncake-transfer-engine", "perigee-mooncake")
    loaded = run(environment, "-c", "import mooncake.store, mooncake.engine; print(mooncake.store.__file__)")
    assert loaded.strip().endswith("mooncake/store.py")


def test_pins_of_mooncakes_version_are_satisfied(environment):
    install(environment, "mooncake-transfer-engine", "perigee-mooncake")
    for wanted in ("mooncake-transfer-engine==0.3.13.post1", "mooncake-transfer-engine>=0.3.12", "mooncake_transfer_engine"):
        said = run(environment, "-m", "pip", "install", "--no-deps", "--no-index", wanted)
        assert "Requirement already satisfied" in said, said


def test_the_alias_depends_on_perigee_and_holds_no_files(environment):
    install(environment, "mooncake-transfer-engine")
    said = run(environment, "-m", "pip", "show", "--files", "mooncake-transfer-engine")
    assert "Requires: perigee-mooncake" in said
    assert all("dist-info" in line for line in said.split("Files:\n")[1].splitlines()), said


def test_a_changed_wheel_is_refused(environment, tmp_path):
    copy = tmp_path / "index"
    subprocess.run(["cp", "-r", INDEX, copy], check=True)
    [wheel] = (copy / "mooncake-transfer-engine").glob("*.whl")
    wheel.write_bytes(wheel.read_bytes() + b"\0")
    words = ("install", "--force-reinstall", "--no-deps", "--no-cache-dir", "--index-url", copy.as_uri())
    assert "DO NOT MATCH THE HASHES" in run(environment, "-m", "pip", *words, "mooncake-transfer-engine", code=1)


def test_each_wheel_says_which_pythons_it_fits():
    page = (INDEX / "perigee-mooncake" / "index.html").read_text()
    assert 'data-requires-python="&gt;=3.10"' in page
    assert "cp311-abi3-manylinux_2_31_" in page
