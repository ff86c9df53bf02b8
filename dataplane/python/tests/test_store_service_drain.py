"""The REST service moves what it holds to other stores before it ends."""

import contextlib
import sys

import pytest

pytest.importorskip("aiohttp", reason="the service needs aiohttp")

from conftest import LEASE_MS, START_TIMEOUT_S, Process, connect, free_ports, has_segments, listens, program, wait_until

OBJECTS = 16
OBJECT_BYTES = 64 << 10
DRAIN_S = 12


@contextlib.contextmanager
def running_master(tmp_path, *flags):
    """RPC and HTTP port of a master."""
    rpc, metrics = free_ports(2)
    process = Process(
        [
            program("mooncake_master"),
            "--rpc_address=127.0.0.1",
            f"--rpc_port={rpc}",
            "--metrics_host=127.0.0.1",
            f"--metrics_port={metrics}",
            f"--default_kv_lease_ttl={LEASE_MS}",
            *flags,
        ],
        tmp_path / "master.log",
    )
    wait_until(lambda: process.alive() and listens(rpc), START_TIMEOUT_S, "master start")
    try:
        yield rpc, metrics
    finally:
        process.stop()


@pytest.fixture
def master(tmp_path):
    """RPC and HTTP port of a master of its own."""
    with running_master(tmp_path) as ports:
        yield ports


def start_service(tmp_path, name, rpc, metrics, *options):
    (port,) = free_ports(1)
    defines = {
        "local_hostname": "127.0.0.1",
        "metadata_server": "P2PHANDSHAKE",
        "master_server_address": f"127.0.0.1:{rpc}",
        "global_segment_size": "32mb",
    }
    words = [sys.executable, "-m", "mooncake.mooncake_store_service", f"--port={port}", "--host=127.0.0.1"]
    words += [f"-D{key}={value}" for key, value in defines.items()]
    service = Process([*words, f"--master-metrics-port={metrics}", *options], tmp_path / name)
    wait_until(lambda: service.alive() and listens(port), START_TIMEOUT_S, f"{name} start")
    return service


@pytest.mark.parametrize("options", [[f"--drain-on-stop={DRAIN_S}"], []], ids=["asked", "usual"])
def test_what_a_service_holds_is_elsewhere_when_it_has_ended(tmp_path, master, options):
    rpc, metrics = master
    with contextlib.ExitStack() as stack:
        leaving = start_service(tmp_path, "leaving.log", rpc, metrics, *options)
        stack.callback(leaving.stop)
        assert has_segments(metrics)
        client = connect(f"127.0.0.1:{rpc}")
        stack.callback(client.close)
        values = {f"drain/{number}": bytes([number]) * OBJECT_BYTES for number in range(OBJECTS)}
        for key, value in values.items():
            assert client.put(key, value) == 0
        staying = start_service(tmp_path, "staying.log", rpc, metrics)
        stack.callback(staying.stop)
        assert leaving.stop() == 0, leaving.log.read_text()
        assert f"{OBJECTS} objects moved" in leaving.log.read_text()
        for key, value in values.items():
            assert client.get(key) == value, key


def test_a_service_without_another_one_ends_without_a_wait(tmp_path, master):
    rpc, metrics = master
    service = start_service(tmp_path, "service.log", rpc, metrics)
    client = connect(f"127.0.0.1:{rpc}")
    try:
        assert client.put("drain/only", b"value") == 0
        assert service.stop() == 0
        assert "No other node takes objects" in service.log.read_text()
    finally:
        client.close()


def test_a_service_whose_time_is_over_leaves_the_job_so_that_no_puts_come_back(tmp_path, master):
    rpc, metrics = master
    service = start_service(tmp_path, "service.log", rpc, metrics, "--drain-on-stop=2")
    client = connect(f"127.0.0.1:{rpc}")
    try:
        assert client.put("drain/only", b"value") == 0
        assert service.stop() == 0
        said = service.log.read_text()
        assert "the job goes on" in said and "takes objects again" not in said, said
    finally:
        client.close()


def test_a_service_without_another_one_writes_what_it_holds_to_its_disk(tmp_path):
    values = {f"saved/{number}": bytes([number]) * OBJECT_BYTES for number in range(OBJECTS)}
    disk = ["-Denable_ssd_offload=true", f"-Dssd_offload_path={tmp_path / 'disk'}"]
    with contextlib.ExitStack() as stack:
        rpc, metrics = stack.enter_context(running_master(tmp_path, "--enable_offload", "--offload_on_evict"))
        client = connect(f"127.0.0.1:{rpc}")
        stack.callback(client.close)
        leaving = start_service(tmp_path, "leaving.log", rpc, metrics, *disk)
        stack.callback(leaving.stop)
        for key, value in values.items():
            assert client.put(key, value) == 0
        assert leaving.stop() == 0, leaving.log.read_text()
        assert f"on the disks, as far as their budgets allow: {OBJECTS} objects" in leaving.log.read_text()
        again = start_service(tmp_path, "again.log", rpc, metrics, *disk)
        stack.callback(again.stop)
        wait_until(lambda: all(client.is_exist(key) == 1 for key in values), START_TIMEOUT_S, "what the disk has")
        for key, value in values.items():
            assert client.get(key) == value, key


def test_a_service_that_cannot_drain_ends_all_the_same_and_says_so(tmp_path, master):
    rpc, _ = master
    (wrong,) = free_ports(1)
    service = start_service(tmp_path, "service.log", rpc, wrong, "--drain-on-stop=1")
    assert service.stop() == 0
    assert "Objects are dropped with this store" in service.log.read_text()
