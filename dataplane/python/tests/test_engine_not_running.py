"""Engine calls without a running engine answer codes; wrong types raise `TypeError`."""

import gc

import pytest

from mooncake.engine import TransferEngine, TransferOpcode

ONE = ("127.0.0.1:1", 4096, 4096, 1)
LISTS = ("127.0.0.1:1", [4096], [4096], [1])

CALLS = [
    ("get_rpc_port", (), -1),
    ("register_memory", (4096, 1), -1),
    ("unregister_memory", (4096,), -1),
    ("batch_register_memory", ([4096], [1]), -1),
    ("batch_unregister_memory", ([4096],), -1),
    ("allocate_managed_buffer", (1,), 0),
    ("free_managed_buffer", (4096, 1), -1),
    ("transfer_sync_write", ONE, -1),
    ("transfer_sync_read", ONE, -1),
    ("transfer_sync", (*ONE, TransferOpcode.Read), -1),
    ("batch_transfer_sync_write", LISTS, -1),
    ("batch_transfer_sync_read", LISTS, -1),
    ("batch_transfer_sync", (*LISTS, TransferOpcode.Write), -1),
    ("transfer_submit_write", ONE, 0),
    ("batch_transfer_async_write", LISTS, 0),
    ("batch_transfer_async_read", LISTS, 0),
    ("batch_transfer_async", (*LISTS, TransferOpcode.Write), 0),
    ("transfer_check_status", (1,), -1),
    ("get_batch_transfer_status", ([1],), -1),
    ("get_first_buffer_address", ("127.0.0.1:1",), 0),
    ("get_notifies", (), []),
    ("send_probe", ("127.0.0.1:1",), -1),
    ("warmup_efa_segment", ("127.0.0.1:1",), -1),
    ("get_engine", (), None),
    ("get_engine_ptr", (), 0),
    ("transfer_write_on_cuda", ONE, -303),
    ("transfer_read_on_cuda", ONE, -303),
    ("batch_transfer_write_on_cuda", LISTS, -303),
    ("batch_transfer_read_on_cuda", LISTS, -303),
]

WRONG_TYPES = [
    ("initialize", (1, "P2PHANDSHAKE", "tcp", "")),
    ("initialize", ("host",)),
    ("register_memory", (-1, 1)),
    ("register_memory", (1 << 64, 1)),
    ("register_memory", (4096, 1.5)),
    ("batch_register_memory", ([4096], ["1"])),
    ("batch_register_memory", (4096, 1)),
    ("transfer_sync_write", (b"host", 1, 2, 3)),
    ("transfer_sync", (*ONE, 1)),
    ("transfer_sync", (*ONE, TransferOpcode.Read, "notify")),
    ("batch_transfer_sync_write", ("host", [1], [2], [None])),
    ("batch_transfer_sync_write", ("host", "12", [2], [3])),
    ("transfer_check_status", (-1,)),
    ("get_batch_transfer_status", (1,)),
    ("write_bytes_to_buffer", (4096, 5, 1)),
]


@pytest.mark.parametrize(("method", "arguments", "answer"), CALLS)
def test_call_before_initialize_answers_a_code(method, arguments, answer):
    assert getattr(TransferEngine(), method)(*arguments) == answer


@pytest.mark.parametrize(("method", "arguments"), WRONG_TYPES)
def test_wrong_type_is_a_type_error(method, arguments):
    with pytest.raises(TypeError):
        getattr(TransferEngine(), method)(*arguments)


def test_what_failed_is_said_in_the_log(caplog):
    assert TransferEngine().register_memory(4096, 1) == -1
    assert "register_memory() failed" in caplog.text and "initialize()" in caplog.text


def test_stream_calls_name_what_to_call_instead(caplog):
    assert TransferEngine().batch_transfer_write_on_cuda(*LISTS, stream_ptr=1) == -303
    assert "batch_transfer_sync_write" in caplog.text


@pytest.mark.parametrize(
    ("protocol", "metadata"),
    [
        ("tpc", "P2PHANDSHAKE"),
        ("tcp", "http://127.0.0.1:1/metadata"),
        ("tcp", "gopher://127.0.0.1:1"),
    ],
)
def test_initialize_with_settings_that_cannot_work_answers_a_code(protocol, metadata, caplog):
    engine = TransferEngine()
    assert engine.initialize("127.0.0.1", metadata, protocol, "") < 0
    assert "initialize() failed" in caplog.text
    assert engine.get_rpc_port() == -1


def test_lists_of_different_lengths_are_refused(caplog):
    engine = TransferEngine()
    assert engine.batch_transfer_sync_write("host:1", [1], [1, 2], [3]) == -1
    assert engine.batch_register_memory([4096], []) == -1
    assert "1 buffers, 2 peer addresses" in caplog.text


def test_addresses_without_memory_are_refused_not_touched():
    engine = TransferEngine()
    assert engine.read_bytes_from_buffer(8, 4) == b""
    assert engine.write_bytes_to_buffer(8, b"abcd", 4) == -1
    assert engine.write_bytes_to_buffer(8, b"abcd", 5) == -1
    assert engine.read_bytes_from_buffer(4096, 1 << 62) == b""


def test_engine_that_never_ran_is_collected():
    for _ in range(10):
        TransferEngine()
    gc.collect()
