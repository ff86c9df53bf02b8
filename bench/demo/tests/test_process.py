"""Children are started, watched and ended; a run on a missing wheel says what to do."""

import sys

import pytest

from bench.demo.__main__ import arguments, main
from bench.demo.cluster import free_ports, program
from bench.demo.process import Process, ProcessError


def python(name, code, folder, **channels):
    return Process(name, [sys.executable, "-c", code], str(folder), **channels)


def test_a_child_that_obeys_leaves_no_complaint(tmp_path):
    code = (
        "import signal, sys, threading\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))\n"
        "print('up', flush=True)\n"
        "threading.Event().wait(60)\n"
    )
    process = python("obedient", code, tmp_path, stdout=-1)
    assert process.child.stdout.readline() == b"up\n"
    process.check_running()
    assert process.stop() is None


def test_a_child_that_failed_is_named_with_the_end_of_its_log(tmp_path):
    process = python("broken", "raise SystemExit('no luck')", tmp_path)
    process.child.wait(60)
    with pytest.raises(ProcessError, match="broken ended with 1.*\n.*no luck"):
        process.check_running()
    assert "ended with 1" in process.stop()


def test_a_killed_child_is_gone(tmp_path):
    process = python("endless", "import time; time.sleep(600)", tmp_path)
    process.kill()
    assert process.child.returncode == -9


def test_a_program_that_does_not_exist_is_named(tmp_path):
    with pytest.raises(ProcessError, match="cannot start /nonexistent"):
        Process("ghost", ["/nonexistent"], str(tmp_path))
    with pytest.raises(ProcessError, match="make demo"):
        program("no_such_program")


def test_free_ports_are_distinct():
    ports = free_ports(50)
    assert len(set(ports)) == 50


def test_options_are_checked():
    assert arguments(["--pool", "1g"]).pool == 1 << 30
    for words in (["--pool", "x"], ["--clients", "0"], ["--route", "rdma"], ["--pool", "64k"]):
        with pytest.raises(SystemExit) as error:
            arguments(words)
        assert error.value.code == 2


def test_a_trace_that_is_not_there_ends_with_2(capsys):
    assert main(["--trace", "/nonexistent.jsonl"]) == 2
    assert "cannot read trace" in capsys.readouterr().err
