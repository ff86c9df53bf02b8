"""TENT's calls over the engine: two engines of one process move bytes."""

import ctypes
import json
import time

import pytest
import tent

DEADLINE_S = 30
PENDING = tent.TransferStatusEnum.PENDING
DONE = tent.TransferStatusEnum.COMPLETED
FAILED = tent.TransferStatusEnum.FAILED


@pytest.fixture
def engines(tmp_path):
    path = tmp_path / "tent.json"
    path.write_text(json.dumps({"rpc_server_hostname": "127.0.0.1"}))
    return tent.TransferEngine(str(path)), tent.TransferEngine(str(path))


def settled(engine, batch):
    deadline = time.monotonic() + DEADLINE_S
    while (status := engine.get_transfer_status_overall(batch)).state == PENDING:
        assert time.monotonic() < deadline
    return status


def test_bytes_go_there_and_come_back(engines):
    here, there = engines
    assert here.available() and here.get_rpc_server_address() == "127.0.0.1"
    with here.allocate_memory_guard(4096) as source, there.allocate_memory_guard(4096) as target:
        segment = here.open_segment(there.get_segment_name())
        assert segment == here.import_remote_segment(there.export_local_segment())
        ctypes.memset(source, 7, 4096)
        requests = [
            tent.Request(tent.OpCode.WRITE, source + at, segment, target + at, 1024, tent.PRIO_LOW)
            for at in range(0, 4096, 1024)
        ]
        with here.allocate_batch_guard(8) as batch:
            here.submit_transfer(batch, requests)
            assert settled(here, batch) == tent.TransferStatus(DONE, 4096)
            assert here.get_transfer_status(batch, 3) == tent.TransferStatus(DONE, 1024)
            ctypes.memset(source, 0, 4096)
            back = [tent.Request(tent.READ, source, segment, target, 4096)]
            here.submit_transfer(batch, back)
            assert settled(here, batch).bytes == 8192
        assert ctypes.string_at(source, 4096) == bytes([7]) * 4096
        assert here.get_segment_info(0).buffers[0].length == 4096
    assert here.get_segment_info(0).buffers == []


def test_a_transfer_to_nothing_fails_by_itself(engines):
    here, there = engines
    segment = here.open_segment(there.get_segment_name())
    with here.allocate_memory_guard(64) as source, there.allocate_memory_guard(64) as target:
        batch = here.allocate_transfer_batch(2)
        requests = [
            tent.Request(tent.WRITE, source, segment, 4096, 64),
            tent.Request(tent.WRITE, source, segment, target, 64),
        ]
        here.submit_transfer(batch, requests)
        assert settled(here, batch).state == FAILED
        states = [status.state for status in here.get_transfer_status_list(batch)]
        assert states == [FAILED, DONE]
        here.free_transfer_batch(batch)
        with pytest.raises(tent.InvalidEntryError, match="no batch"):
            here.get_transfer_status_list(batch)


def test_messages_arrive(engines):
    here, there = engines
    segment = here.open_segment(there.get_segment_name())
    here.send_notifi(segment, tent.Notification("kv", "ready"))
    deadline = time.monotonic() + DEADLINE_S
    while not (found := there.recv_notifi()):
        assert time.monotonic() < deadline
    assert found == [tent.Notification("kv", "ready")]


def test_what_makes_no_sense_or_is_not_there_is_an_exception(engines):
    here, _ = engines
    batch = here.allocate_transfer_batch(1)
    for call, error in (
        (lambda: here.open_segment("127.0.0.1:1"), tent.TentException),
        (lambda: here.close_segment(0), tent.InvalidEntryError),
        (lambda: here.get_segment_info(9), tent.InvalidEntryError),
        (lambda: here.allocate_transfer_batch(0), tent.InvalidArgumentError),
        (lambda: here.submit_transfer(batch, [tent.Request()] * 2), tent.InvalidArgumentError),
        (lambda: here.submit_transfer(batch, [tent.Request(target_id=9)]), tent.InvalidEntryError),
        (
            lambda: here.submit_transfer(batch, [tent.Request(transport_hint=tent.NVLINK)]),
            tent.InvalidArgumentError,
        ),
        (lambda: here.cancel_transfer(batch, 0), tent.InvalidArgumentError),
        (lambda: here.submit_transfer_notif(batch, [], "a", "b"), tent.NotImplementedError),
        (lambda: here.register_local_memory(1, 1, tent.GlobalReadOnly), tent.NotImplementedError),
        (lambda: here.unregister_local_memory(1), tent.TentException),
        (lambda: here.free_local_memory(1), tent.AddressNotRegisteredError),
    ):
        with pytest.raises(error):
            call()


@pytest.mark.parametrize(
    "text", ["", "[]", '{"metadata_type": "none"}', '{"metadata_type": "etcd"}']
)
def test_a_file_that_says_nothing_is_refused(tmp_path, text):
    path = tmp_path / "tent.json"
    path.write_text(text)
    with pytest.raises(tent.InvalidArgumentError):
        tent.TransferEngine(str(path))


@pytest.mark.parametrize("settings", [{"rpc_server_port": 0}, 7, b"tent.json", ["tent.json"]])
def test_what_is_no_path_is_refused_with_what_to_write(settings):
    with pytest.raises(TypeError, match=r"the path of a JSON file.*json.dumps\(settings\)"):
        tent.TransferEngine(settings)


def test_a_path_object_is_a_path(tmp_path):
    path = tmp_path / "tent.json"
    path.write_text('{"rpc_server_hostname": "127.0.0.1"}')
    assert tent.TransferEngine(path).available()
    with pytest.raises(tent.InvalidArgumentError, match="cannot be read"):
        tent.TransferEngine(tmp_path / "none.json")


def test_settings_without_effect_are_named(tmp_path, caplog):
    path = tmp_path / "tent.json"
    path.write_text('{"rpc_server_hostname": "127.0.0.1", "max_failover_attempts": 3}')
    assert tent.TransferEngine(str(path)).get_rpc_server_port() > 0
    assert "max_failover_attempts" in caplog.text
