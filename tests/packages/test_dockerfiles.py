"""The Dockerfiles by hadolint; tests/containers builds and runs them."""

import pytest
from conftest import ROOT, TOOLS, run

HADOLINT = TOOLS / "hadolint" / "bin" / "hadolint"
FILES = sorted((ROOT / "tools" / "deploy").glob("Dockerfile*"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_hadolint_finds_nothing(path):
    assert run(HADOLINT, path) == ""


def test_a_bad_habit_is_found(tmp_path):
    file = tmp_path / "Dockerfile"
    file.write_text(FILES[0].read_text() + "RUN cd /tmp && apt-get install curl\n")
    assert "DL3008" in run(HADOLINT, file, code=1)
