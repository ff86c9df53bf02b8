"""The topology that `get_local_topology` and the console script print."""

import json
import subprocess
import sys

import pytest

from mooncake import transfer_engine_topology_dump
from mooncake.engine import TransferEngine

CHILD_TIMEOUT_S = 60
CUSTOM = {"cpu:0": [["mlx5_0"], ["mlx5_1"]], "cuda:0": [["mlx5_1"], ["mlx5_0"]]}


@pytest.fixture(autouse=True)
def no_environment(monkeypatch):
    for name in ("MC_CUSTOM_TOPO_JSON", "MC_TE_FILTERS", "MC_TE_FILTERS_EXCLUDE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def custom_file(tmp_path):
    path = tmp_path / "matrix.json"
    path.write_text(json.dumps(CUSTOM))
    return str(path)


def check_shape(text):
    matrix = json.loads(text)
    assert matrix and all(len(rails) == 2 for rails in matrix.values())
    return matrix


def test_topology_needs_no_engine_and_has_mooncakes_shape():
    matrix = check_shape(TransferEngine().get_local_topology())
    assert any(location.startswith("cpu:") for location in matrix)
    assert TransferEngine().get_local_topology() == TransferEngine().get_local_topology(None)


def test_names_of_nics_that_are_not_there_leave_none():
    matrix = check_shape(TransferEngine().get_local_topology(device_name="no_such_nic"))
    assert all(rails == [[], []] for rails in matrix.values())


def test_running_engine_says_its_topology():
    engine = TransferEngine()
    assert engine.initialize("127.0.0.1", "P2PHANDSHAKE", "tcp", "") == 0
    check_shape(engine.get_local_topology())
    check_shape(engine.get_local_topology("no_such_nic"))


def test_custom_matrix_takes_the_place_of_the_one_found(monkeypatch, custom_file):
    monkeypatch.setenv("MC_CUSTOM_TOPO_JSON", custom_file)
    assert json.loads(TransferEngine().get_local_topology()) == CUSTOM
    assert json.loads(TransferEngine().get_local_topology("mlx5_1")) == {
        "cpu:0": [[], ["mlx5_1"]],
        "cuda:0": [["mlx5_1"], []],
    }


def test_custom_matrix_holds_once_an_engine_runs(monkeypatch, custom_file):
    monkeypatch.setenv("MC_CUSTOM_TOPO_JSON", custom_file)
    engine = TransferEngine()
    assert engine.initialize("127.0.0.1", "P2PHANDSHAKE", "tcp", "") == 0
    assert json.loads(engine.get_local_topology()) == CUSTOM
    assert json.loads(engine.get_local_topology("mlx5_1"))["cuda:0"] == [["mlx5_1"], []]


def test_engine_does_not_start_with_a_custom_matrix_that_is_not_there(monkeypatch, caplog):
    monkeypatch.setenv("MC_CUSTOM_TOPO_JSON", "/no/such/file")
    assert TransferEngine().initialize("127.0.0.1", "P2PHANDSHAKE", "tcp", "") != 0
    assert "MC_CUSTOM_TOPO_JSON" in caplog.text and "/no/such/file" in caplog.text


def test_custom_matrix_that_is_none_is_an_error_in_the_log(monkeypatch, tmp_path, caplog):
    path = tmp_path / "broken.json"
    path.write_text("[1]")
    monkeypatch.setenv("MC_CUSTOM_TOPO_JSON", str(path))
    assert json.loads(TransferEngine().get_local_topology()) == {}
    assert "get_local_topology() failed" in caplog.text


def dump(*arguments, **environment):
    module = [sys.executable, "-P", "-m", "mooncake.transfer_engine_topology_dump"]
    return subprocess.run(
        [*module, *arguments], capture_output=True, text=True, timeout=CHILD_TIMEOUT_S
    )


def test_script_prints_what_is_found_though_a_custom_matrix_is_set(monkeypatch, custom_file):
    monkeypatch.setenv("MC_CUSTOM_TOPO_JSON", custom_file)
    ended = dump()
    head, _, matrix = ended.stdout.partition(": ")
    assert (ended.returncode, head) == (0, "Local topology [te/discover]")
    check_shape(matrix)


def test_script_prints_the_custom_matrix_when_asked_to(monkeypatch, custom_file):
    for arguments in (["--custom-topo-json", custom_file], ["--use-custom-topo"]):
        monkeypatch.setenv("MC_CUSTOM_TOPO_JSON", custom_file)
        ended = dump(*arguments, "--backend", "te")
        head, _, matrix = ended.stdout.partition("]: ")
        assert (ended.returncode, head) == (0, f"Local topology [te/custom ({custom_file})")
        assert json.loads(matrix) == CUSTOM


@pytest.mark.parametrize(
    "arguments",
    [["--use-custom-topo"], ["--custom-topo-json", "/no/such/file"], ["--backend", "tent"]],
)
def test_script_that_cannot_do_it_ends_with_1_and_says_why(arguments, capsys):
    assert transfer_engine_topology_dump.main(arguments) == 1
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.startswith("error: ")
