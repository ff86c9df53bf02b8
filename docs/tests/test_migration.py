"""Each statement of the page about Mooncake's users has a test, here or elsewhere, that names it.

`migration_proofs.txt` says which: a part of the statement, then the tests. A statement that is new
or changed has none, and fails until the file names its test.
"""

import os
import re
import subprocess
import threading
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "src" / "migration.md"
PROOFS = Path(__file__).with_name("migration_proofs.txt")
TEST_FOLDERS = ("tests", "control", "dataplane", "tools", "docs/tests", "ebpf", "go")
DEADLINE_S = 30
TEST_NAME = re.compile(
    r"^\s*(?:pub )?(?:async )?fn (\w+)|^def (test_\w+)|^func (Test\w+)", re.MULTILINE
)


@cache
def statements():
    """Bullets, steps, rows and sentences of the page; a table's head is none."""
    found, rows = [], []

    def close():
        found.extend(rows[2:])
        rows.clear()

    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("|"):
            rows.append(line)
            continue
        close()
        if not line.strip() or line.startswith("#"):
            found.append("")
        elif line.startswith("  ") and found and found[-1]:
            found[-1] += " " + line.strip()
        else:
            found.append(line)
    close()
    return [one for one in found if one]


@cache
def proofs():
    """Part of a statement, and the tests that show it."""
    lines = PROOFS.read_text(encoding="utf-8").splitlines()
    pairs = [line.split(" => ") for line in lines if line and not line.startswith("#")]
    return [(part, tests.split(", ")) for part, tests in pairs]


@cache
def names_of_tests():
    """Names of functions in files that can hold tests."""
    names = set()
    for folder in TEST_FOLDERS:
        for file in (ROOT / folder).rglob("*"):
            if file.suffix in (".rs", ".py", ".go") and "target" not in file.parts:
                for match in TEST_NAME.findall(file.read_text(encoding="utf-8")):
                    names.update(name for name in match if name)
    return names


@pytest.mark.parametrize("statement", statements())
def test_a_statement_of_the_page_has_a_test(statement):
    assert any(part in statement for part, _ in proofs()), "migration_proofs.txt has nothing of it"


@pytest.mark.parametrize("part, tests", proofs(), ids=[part for part, _ in proofs()])
def test_a_proof_is_of_one_statement_and_its_tests_are_there(part, tests):
    assert sum(part in statement for statement in statements()) == 1
    missing = [name for name in tests if name not in names_of_tests()]
    assert not missing, "no such test"


def stub(name):
    return (ROOT / "dataplane/python/mooncake" / name).read_text(encoding="utf-8")


def methods(text, name):
    """Names of the public methods of a class of a stub."""
    body = re.search(rf"^class {name}.*?:\n(.*?)(?=^\S|\Z)", text, re.MULTILINE | re.DOTALL)[1]
    return {found for found in re.findall(r"^    def (\w+)\(", body, re.MULTILINE)}


def test_methods_are_as_many_as_the_page_says():
    said = re.search(r"(\d+) methods of `MooncakeDistributedStore`, (\d+) of", PAGE.read_text())
    store = {name for name in methods(stub("store.pyi"), "MooncakeDistributedStore")}
    engine = methods(stub("engine.pyi"), "TransferEngine")
    counts = [len({name for name in names if name[0] != "_"}) for names in (store, engine)]
    assert counts >= [int(count) for count in said.groups()]


def test_the_version_that_is_compared_is_the_one_in_the_code():
    help_rs = (ROOT / "control/flags/src/help.rs").read_text()
    version = re.search(r'MOONCAKE_VERSION: &str = "([\d.]+)"', help_rs)[1]
    assert f"Mooncake {version}" in PAGE.read_text()


def test_modules_of_the_page_are_there():
    line = next(one for one in statements() if "The Python modules" in one)
    folder = ROOT / "dataplane/python/mooncake"
    for name in re.findall(r"`([a-z_]+)`", line):
        assert (folder / f"{name}.py").exists(), name
    missing = next(one for one in statements() if one.startswith("| modules |"))
    for name in re.findall(r"`([a-z_]+)`", missing):
        assert "_not_built" in (folder / f"{name}.py").read_text(), name


def rows_of_flags():
    """State and default of each flag, by program, as the written page has them."""
    page = (ROOT / "docs/src/settings/flags.md").read_text()
    return re.findall(r"^\| `(\w+)` \| \w+ \| `?(.*?)`? \| (.*) \|$", page, re.MULTILINE)


def test_default_ports_are_those_of_the_page():
    line = next(one for one in statements() if "The ports:" in one)
    flags = ("port", "metrics_port", "http_metadata_server_port", "http_port")
    for port, flag in zip(re.findall(r"\d+", line), flags):
        defaults = [default for name, default, _ in rows_of_flags() if name == flag]
        assert port in defaults, flag


def test_flags_of_features_that_are_missing_say_so():
    table = PAGE.read_text().split("| feature | flags |")[1].split("\n\n")[0]
    words = re.findall(r"`([\w*]+)`", table)
    assert len(words) > 10
    for word in words:
        pattern = re.compile(word.replace("*", r"\w*") + "$")
        found = [text for name, _, text in rows_of_flags() if pattern.match(name)]
        assert found, word
        states = ("not built yet", "no effect", "deprecated")
        assert all(any(state in text for state in states) for text in found), (word, found)


def test_command_lines_of_the_guides_are_those_of_mooncake():
    for name in ("command_line_of_the_sglang_guide_is_read", "command_line_of_the_mooncake_guide_is_read"):
        assert name in names_of_tests()


def test_the_crate_and_the_libraries_of_the_page_are_there():
    keys = (ROOT / "dataplane/client/src/store/keys.rs").read_text()
    assert "pub fn addresses_of(" in keys
    for crate in ("client", "c-engine", "c-store"):
        assert (ROOT / "dataplane" / crate / "Cargo.toml").exists()


@pytest.mark.parametrize("flag", ["rpc_enable_tcp_no_delay=false", "memory_allocator=cachelib"])
def test_a_master_says_what_has_no_effect(flag):
    program = os.environ.get("PERIGEE_BIN") or str(ROOT / "target/debug/perigee")
    arguments = ["mooncake_master", f"--{flag}", "--rpc_port=0", "--metrics_port=0"]
    arguments += ["--rpc_address=127.0.0.1", "--metrics_host=127.0.0.1", "--logtostderr"]
    master = subprocess.Popen(
        arguments, executable=program, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    )
    end = threading.Timer(DEADLINE_S, master.kill)
    end.start()
    try:
        name = flag.split("=")[0]
        said = (line for line in master.stderr if name in line and "WARN" in line)
        assert next(said, None), "no line says that it has no effect"
    finally:
        end.cancel()
        master.kill()
        master.wait()
