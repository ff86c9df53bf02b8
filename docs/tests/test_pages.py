"""What the book says is what the code says: variables, flags, messages, metrics, files, links."""

import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
SOURCE = DOCS / "src"
PAGES = sorted(SOURCE.rglob("*.md"))
README_LINES_MAX = 100
TOP_LEVEL = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md")
READERS = [*PAGES, *(ROOT / name for name in TOP_LEVEL)]
DELIVERED = ("bench", "control", "dataplane", "ebpf", "go", "schemas", "tools")
NOT_DELIVERED = {"tests", "tests.rs", "examples", "testing"}
TESTS_OF_A_FILE = re.compile(r"#\[cfg\(test\)\]\n(?:#\[.*\]\n)*mod tests \{")
BUILT = re.compile(r"(?!.*/src/).*/target/")
# The table of all that Mooncake reads: to be in it is not to be read.
TABLE = ROOT / "dataplane/settings/src/mooncake"

# A number alone behind it is a version of the libraries for C.
NAME = r"(?:MC|MOONCAKE|PERIGEE)_(?!\d+\b)[A-Z0-9_]*[A-Z0-9]"
READ_VARIABLE = re.compile(f'"({NAME})"')
# Variables with names of others: a call that reads the environment names them.
READ_OTHER = re.compile(r'(?:environ(?:ment)?(?:\.get)?[(\[]|getenv\(|LookupEnv\(|env::var(?:_os)?\()\s*"([A-Z][A-Z0-9_]+)"')
SHOWN_VARIABLE = re.compile(rf"\b({NAME})\b")
# Of the build, of tests and measurements for the programs they start, and of flags, which are on a
# page of their own.
NOT_ON_THE_PAGE = re.compile(
    r"PERIGEE_(COMMIT|WHEEL_.*|TEST_.*|VM.*|TRACE|SEEDS|BENCH_.*)$|CARGO_.*|OUT_DIR$|HATCHLING$|TERM$"
)
OF_FLAGS = re.compile(r"PERIGEE_(PROGRAM|MASTER|NODE|AGENT|METADATA)_\w+")


@cache
def code(but=None):
    """Text of all sources but tests, also without the tests at the foot of a Rust file."""
    texts = []
    for folder in (folder for folder in DELIVERED if folder != but):
        for file in sorted((ROOT / folder).rglob("*")):
            name = file.relative_to(ROOT)
            if TABLE in file.parents or set(name.parts) & NOT_DELIVERED or BUILT.match(str(name)):
                continue
            if file.suffix in (".rs", ".py", ".go", ".c", ".h"):
                texts.append(TESTS_OF_A_FILE.split(file.read_text(encoding="utf-8"))[0])
    return "\n".join(texts)


@cache
def scripts():
    """Text of what builds, tests and deploys."""
    files = [ROOT / "Makefile", ROOT / "dataplane/rails/src/shard/tests.rs"]
    for pattern in ("tests/*.sh", "tools/*.sh", "ebpf/*.sh", "tests/clients/*.py", "tests/src/*.rs", "tools/deploy/*.yaml"):
        files += sorted(ROOT.glob(pattern))
    return "\n".join(file.read_text() for file in files if file.exists())


def name_of(page):
    return str(page.relative_to(ROOT))


def test_every_variable_the_code_reads_is_on_the_page():
    read = set(READ_VARIABLE.findall(code())) | set(READ_OTHER.findall(code()))
    read = {name for name in read if not NOT_ON_THE_PAGE.match(name)}
    assert len(read) > 50
    shown = set(re.findall(r"`([A-Z][A-Z0-9_]+)`", (SOURCE / "settings" / "variables.md").read_text()))
    assert read - shown == set()


@pytest.mark.parametrize("page", READERS, ids=name_of)
def test_variables_of_a_page_are_read_by_something(page):
    if page.name in ("migration.md", "mooncake.md", "sglang.md"):
        return  # they name what is read elsewhere, or by nothing
    for name in set(SHOWN_VARIABLE.findall(page.read_text())):
        known = name in code() or name in scripts() or OF_FLAGS.match(name)
        assert known, f"nothing reads {name}"


@pytest.mark.parametrize("writer", ["flags.py", "mooncake.py"])
def test_a_written_page_is_what_the_programs_print(writer):
    check = [sys.executable, str(DOCS / writer), "--check"]
    done = subprocess.run(check, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", READERS, ids=name_of)
def test_flags_of_a_page_exist(page):
    flags = (SOURCE / "settings" / "flags.md").read_text()
    known = set(re.findall(r"^\| `(\w+)` \|", flags, re.MULTILINE)) | {"help", "version"}
    for command in commands(page.read_text()):
        for flag in re.findall(r"(?<!\S)--(?:no)?([\w-]+)", command):
            assert flag.replace("-", "_") in known, f"--{flag} of `{command}`"


def commands(text):
    """Commands of ours in blocks and spans of code, continued lines joined."""
    blocks = re.findall(r"```\w*\n(.*?)```", text, re.DOTALL)
    lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    spans = re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    for line in lines + spans:
        found = re.match(r"\s*(?:exec )?((?:perigee|mooncake_master|mooncake_client) .*)", line)
        if found:
            yield found[1].split("#")[0].split("|")[0]


def test_messages_of_troubleshooting_are_in_the_code():
    said = re.sub(r"\\\n\s*", "", code())  # string literals that go on in the next line
    page = (SOURCE / "troubleshooting.md").read_text()
    headings = re.findall(r"^### `(.*)`$", page, re.MULTILINE)
    assert len(headings) > 20
    missing = [heading for heading in headings if heading not in said]
    assert not missing, "no program says this"


@pytest.mark.parametrize("page", READERS, ids=name_of)
def test_metrics_of_a_page_exist(page):
    catalogue = (ROOT / "control" / "metrics" / "METRICS.md").read_text()
    endings = "total|bytes|count|seconds|suspect|enabled"
    for name in re.findall(rf"`((?:master|perigee|mooncake)_\w+_(?:{endings}))`", page.read_text()):
        if not re.search(rf"--{name}\b|\| `{name}` \|", flags_page()):
            assert f"`{name}`" in catalogue, name


@cache
def flags_page():
    return (SOURCE / "settings" / "flags.md").read_text()


THREAD_NAME = re.compile(
    r"""(?:Builder::new\(\)\s*\.name\(|thread_name\(|ShardOptions::named\(|\bname:\s*(?="perigee-)"""
    r"""|\bbegin\(|Periodic::start\(|HttpServer::start(?:_if_free)?\()\s*"([\w-]+)\""""
)


def test_the_page_of_threads_names_all_threads_and_no_others():
    named = set(THREAD_NAME.findall(code(but="bench")))
    assert len(named) > 40
    page = (SOURCE / "how" / "threads.md").read_text()
    table = page.split("| thread |")[1].split("\n\n")[0]
    rows = [line.split("|")[1] for line in table.splitlines()[2:]]
    assert named == {name for row in rows for name in re.findall(r"`([\w-]+)`", row)}
    for name in re.findall(r"`(perigee-[a-z]+)`", page.replace(table, "")):
        assert any(known.startswith(name) for known in named), name


@pytest.mark.parametrize("page", READERS, ids=name_of)
def test_every_table_has_a_head(page):
    prose = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    for table in re.findall(r"(?:^\|.*\n?)+", prose, re.MULTILINE):
        lines = table.splitlines()
        assert len(lines) > 2 and re.fullmatch(r"\|[\s:|-]+\|", lines[1]), lines[0]


def test_every_page_is_in_the_summary():
    listed = re.findall(r"\]\(([\w/.-]+)\)", (SOURCE / "SUMMARY.md").read_text())
    written = [str(page.relative_to(SOURCE)) for page in PAGES if page.name != "SUMMARY.md"]
    assert sorted(listed) == sorted(written)


def anchors(page):
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", READERS, ids=name_of)
def test_links_of_a_page_hold(page):
    prose = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    for target, anchor in re.findall(r"\]\(([\w/.-]*)(?:#([\w-]+))?\)", prose):
        other = (page.parent / target).resolve() if target else page
        assert other.exists(), target
        assert not anchor or anchor in anchors(other), f"{target}#{anchor}"
        inside = SOURCE in other.parents
        assert inside or page not in PAGES, f"{target}: a page of the book links into the book"


@pytest.mark.parametrize("page", READERS, ids=name_of)
def test_files_that_a_page_names_exist(page):
    folders = "docs|tools|tests|bench|ebpf|control|dataplane|schemas"
    for name in re.findall(rf"`((?:{folders})/[\w./-]+)`", page.read_text()):
        assert (ROOT / name).exists(), name


def test_the_readme_stays_short():
    assert len((ROOT / "README.md").read_text().splitlines()) <= README_LINES_MAX
