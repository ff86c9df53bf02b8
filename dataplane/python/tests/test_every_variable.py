"""No variable of Mooncake's table is accepted in silence: each is set to what makes sense and to what
makes none, and shows an effect, a line or a refusal.
"""

import functools
import json
import os
import re
import subprocess
import sys

import pytest
from conftest import START_TIMEOUT_S, Process, free_ports, listens, program, wait_until

CHILD_TIMEOUT_S = 300
NONSENSE = "no-such?"
BOTH = """
import sys
from mooncake.engine import TransferEngine
from mooncake.store import MooncakeDistributedStore
folder, master = sys.argv[1:]
store = MooncakeDistributedStore()
setup = store.setup({
    "local_hostname": "127.0.0.1", "metadata_server": "P2PHANDSHAKE",
    "global_segment_size": str(16 << 20), "local_buffer_size": str(16 << 20),
    "protocol": "tcp", "master_server_addr": master, "ssd_offload_path": folder,
    "enable_ssd_offload": "true",
})
print("setup", setup, "initialize", TransferEngine().initialize("127.0.0.1:0", "P2PHANDSHAKE", "tcp", ""))
store.close()
"""
# Tries one variable after the other in a child of its own, in the calls that read variables.
EACH = """
import json, os, sys
import mooncake.engine, mooncake.store
from mooncake.mooncake_config import MooncakeConfig
value, folder, names = sys.argv[1], sys.argv[2], sys.argv[3:]

def setup():
    store = mooncake.store.MooncakeDistributedStore()
    store.setup({
        "local_hostname": "127.0.0.1", "metadata_server": "P2PHANDSHAKE",
        "global_segment_size": "0", "local_buffer_size": "0", "protocol": "tcp",
        "master_server_addr": "127.0.0.1:1", "ssd_offload_path": folder,
        "enable_ssd_offload": "true",
    })

def initialize():
    mooncake.engine.TransferEngine().initialize("127.0.0.1:0", "P2PHANDSHAKE", "tcp", "")

def config():
    MooncakeConfig.load_from_env()

def said(call, name):
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(write, 1)
        os.dup2(write, 2)
        os.environ[name] = value
        os.environ.setdefault("MOONCAKE_MASTER", "127.0.0.1:1")
        try:
            call()
        except Exception as error:
            print(error, flush=True)
        os._exit(0)
    os.close(write)
    with os.fdopen(read, errors="replace") as text:
        lines = text.read()
    os.waitpid(child, 0)
    return lines

print(json.dumps({name: [said(call, name) for call in (config, setup, initialize)]
                  for name in names}))
"""
# What a configuration calls a variable of its own.
FIELDS = {
    "MOONCAKE_GLOBAL_SEGMENT_SIZE": "global_segment_size",
    "MOONCAKE_LOCAL_BUFFER_SIZE": "local_buffer_size",
    "MOONCAKE_ENABLE_CLIENT_HTTP_SERVER": "enable_client_http_server",
    "MOONCAKE_CLIENT_HTTP_PORT": "client_http_port",
    "MOONCAKE_OFFLOAD_ENABLED": "enable_ssd_offload",
    "MOONCAKE_CONFIG_PATH": NONSENSE,
}
# Values that make sense, all at once. Those of variables that would change the calls are left out.
SENSE = {
    "MC_RPC_TIMEOUT_MS": "20000",
    "MC_RPC_CONNECT_TIMEOUT_MS": "20000",
    "MC_RPC_PROTOCOL": "tcp",
    "MC_STORE_CLIENT_METRIC": "1",
    "MC_STORE_CLIENT_METRIC_INTERVAL": "30",
    "MC_TRANSFER_TIMEOUT": "30",
    "MC_FORCE_TCP": "1",
    "MC_HANDSHAKE_LISTEN_BACKLOG": "64",
    "MC_HANDSHAKE_CONNECT_TIMEOUT": "10",
    "MC_HANDSHAKE_MAX_LENGTH": "1048576",
    "MC_TE_METRIC": "1",
    "MC_TE_METRIC_INTERVAL_SECONDS": "60",
    "MC_DISABLE_METACACHE": "1",
    "MC_TE_METADATA_REFRESH_INTERVAL_SECONDS": "10",
    "MC_METADATA_CLUSTER_ID": "a-cluster",
    "MC_REDIS_DB_INDEX": "1",
    "MC_TCP_BIND_ADDRESS": "127.0.0.1",
    "MC_IB_TC": "96",
    "MC_IB_SL": "3",
    "MC_PKEY_INDEX": "0",
    "MC_IB_PORT": "1",
    "MC_MTU": "1024",
    "MC_NUM_QP_PER_EP": "2",
    "MC_RETRY_CNT": "7",
    "MC_SLICE_SIZE": "65536",
    "MC_MS_AUTO_DISC": "1",
    "MC_ENABLE_DEST_DEVICE_AFFINITY": "1",
    "MC_NIC_PEER_AFFINITY": "mlx5_0=mlx5_1",
    "MOONCAKE_OFFLOAD_BUCKET_SIZE_LIMIT_BYTES": "16777216",
    "POD_NAME": "a-pod",
    "POD_NAMESPACE": "a-space",
}
# Any text has a meaning here, or the value is read later than these calls: who tests its effect.
ANY_TEXT = {
    "MOONCAKE_MASTER": "test_config",
    "MOONCAKE_LOCAL_HOSTNAME": "test_config",
    "MOONCAKE_TE_META_DATA_SERVER": "test_config",
    "MOONCAKE_PROTOCOL": "test_config: a line names a protocol that is not known",
    "MOONCAKE_DEVICE": "test_config; a device that is not there is named at setup",
    "MOONCAKE_TENANT_ID": "test_tenants",
    "MOONCAKE_OFFLOAD_FILE_STORAGE_PATH": "test_disks",
    "MC_STORE_USE_HUGEPAGE": "set is on, as with Mooncake; dataplane/memory",
    "MC_STORE_CLUSTER_ID": "the folder of the log on a disk; tests/system",
    "POD_NAME": "the servers' log; tests/system",
    "POD_NAMESPACE": "the servers' log; tests/system",
    "MC_LOG_LEVEL": "test_mooncake_variables: named once, when the module is imported",
    "MC_LOG_DIR": "test_mooncake_variables: named once, when the module is imported",
    "MC_METADATA_CLUSTER_ID": "dataplane/discovery",
    "MC_REDIS_USERNAME": "dataplane/discovery",
    "MC_REDIS_PASSWORD": "dataplane/discovery",
    "MC_GID_INDEX": "a device is opened; dataplane/verbs",
    "NCCL_IB_GID_INDEX": "a device is opened; dataplane/verbs",
    "MC_IB_PCI_RELAXED_ORDERING": "memory of a device is registered; dataplane/verbs",
    "MC_TE_FILTERS": "names of devices; dataplane/rdma",
    "MC_MS_FILTERS": "names of devices; dataplane/rdma",
    "MC_TE_FILTERS_EXCLUDE": "names of devices; dataplane/rdma",
    "CUDA_VISIBLE_DEVICES": "the driver's own",
    "MOONCAKE_BUCKET_EVICTION_POLICY": "every policy but none is the log's",
    "MOONCAKE_OFFLOAD_BUCKET_EVICTION_POLICY": "every policy but none is the log's",
}


@functools.cache
def table():
    """Return what each variable of Mooncake does here, as the doctor lists it."""
    command = [program("perigee"), "doctor", "--mooncake-env=all", "--format=json"]
    said = subprocess.run(command, capture_output=True, text=True, timeout=CHILD_TIMEOUT_S)
    rows = json.loads(said.stdout)["variables"]
    assert len(rows) > 300, said.stderr
    return {row["name"]: row["effect"] for row in rows}


def names_of(what):
    return [name for name, it in table().items() if it == what]


def without_mooncake(**variables):
    """Return this environment without variables of the table, and with these."""
    kept = {name: value for name, value in os.environ.items() if name not in table()}
    return kept | variables


def run(code, *arguments, **variables):
    """Run a program in an interpreter of its own; return what it says."""
    child = subprocess.run(
        [sys.executable, "-P", "-c", code, *arguments],
        capture_output=True,
        text=True,
        timeout=CHILD_TIMEOUT_S,
        env=without_mooncake(**variables),
    )
    assert child.returncode == 0, child.stdout + child.stderr
    return child.stdout, child.stderr


def check_lines(log):
    """Each variable without effect has its line, or its place in the one of those not needed."""
    for name in names_of("not built"):
        assert len(re.findall(rf"\b{name} is set and has no effect", log)) == 1, name
    (line,) = [line for line in log.splitlines() if "Set and not needed" in line]
    for name in names_of("not needed"):
        assert re.search(rf"\b{name}\b", line), name


@pytest.mark.parametrize("value", ["1", NONSENSE])
def test_variables_without_effect_have_a_line_each_in_a_client(tmp_path, value):
    unbuilt = dict.fromkeys(names_of("not built") + names_of("not needed"), value)
    said, log = run(BOTH, str(tmp_path), "127.0.0.1:1", **unbuilt)
    check_lines(log)
    assert "initialize 0" in said


def test_variables_without_effect_have_a_line_each_in_a_master(tmp_path, monkeypatch):
    for name in names_of("not built") + names_of("not needed"):
        monkeypatch.setenv(name, NONSENSE)
    rpc, http = free_ports(2)
    log = tmp_path / "master.log"
    master = Process(
        [program("mooncake_master"), "--rpc_address=127.0.0.1", f"--rpc_port={rpc}",
         "--metrics_host=127.0.0.1", f"--metrics_port={http}"],
        log,
    )
    try:
        wait_until(lambda: master.alive() and listens(rpc), START_TIMEOUT_S, "master start")
    finally:
        master.stop()
    check_lines(log.read_text())


def test_values_that_make_sense_are_taken_without_a_word(tmp_path, master_address):
    assert set(SENSE) <= set(names_of("honoured"))
    said, log = run(BOTH, str(tmp_path), master_address, **SENSE)
    assert said == "setup 0 initialize 0\n", log
    named = [name for name in SENSE if f"{name} " in log]
    assert not named, log


def test_values_that_make_no_sense_are_named_with_what_to_write(tmp_path):
    names = [name for name in names_of("honoured") if name not in ANY_TEXT]
    said, _ = run(EACH, NONSENSE, str(tmp_path), *names)
    silent = []
    for name, answers in json.loads(said).items():
        words = FIELDS.get(name, name)
        if not any(words in line and NONSENSE in line for it in answers for line in it.splitlines()):
            silent.append(name)
    assert not silent


def test_each_variable_that_is_not_tried_has_its_reason_and_is_honoured():
    assert set(ANY_TEXT) <= set(names_of("honoured"))
