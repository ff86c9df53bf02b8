"""Stores of several tenants in one cluster: each sees its own objects and no other's."""

import contextlib

import pytest
from conftest import START_TIMEOUT_S, Process, free_ports, program, wait_until

from mooncake.mooncake_config import MooncakeConfig
from mooncake.mooncake_store_service import MooncakeStoreService
from mooncake.store import MooncakeDistributedStore

LOCAL_BUFFER_BYTES = 16 << 20


def by_keyword(master, tenant):
    """Join by the positions of setup and the keyword."""
    client = MooncakeDistributedStore()
    seven = ("127.0.0.1", "P2PHANDSHAKE", 0, LOCAL_BUFFER_BYTES, "tcp", "", master)
    assert client.setup(*seven, tenant_id=tenant) == 0
    return client


def by_dict(master, tenant):
    """Join by the dict of setup."""
    client = MooncakeDistributedStore()
    settings = {
        "local_hostname": "127.0.0.1",
        "metadata_server": "P2PHANDSHAKE",
        "global_segment_size": "0",
        "local_buffer_size": str(LOCAL_BUFFER_BYTES),
        "master_server_addr": master,
        "tenant_id": tenant,
    }
    assert client.setup(settings) == 0
    return client


def by_config(master, tenant, monkeypatch):
    """Join with the arguments that the store service makes of the variables."""
    monkeypatch.setenv("MOONCAKE_MASTER", master)
    monkeypatch.setenv("MOONCAKE_LOCAL_HOSTNAME", "127.0.0.1")
    monkeypatch.setenv("MOONCAKE_GLOBAL_SEGMENT_SIZE", "0")
    monkeypatch.setenv("MOONCAKE_LOCAL_BUFFER_SIZE", str(LOCAL_BUFFER_BYTES))
    monkeypatch.setenv("MOONCAKE_TENANT_ID", tenant)
    config = MooncakeConfig.load_from_env()
    assert config.tenant_id == tenant
    client = MooncakeDistributedStore()
    assert client.setup(MooncakeStoreService(config).setup_arguments()) == 0
    return client


def test_a_client_that_names_no_tenant_has_the_one_of_the_environment(
    store, master_address, monkeypatch
):
    monkeypatch.setenv("MOONCAKE_TENANT_ID", "violet")
    with contextlib.ExitStack() as stack:
        clients = [by_keyword(master_address, None), by_dict(master_address, "")]
        named = by_keyword(master_address, "default")
        for client in [*clients, named]:
            stack.callback(client.close)
        assert clients[0].put("tenants/own", b"violet's") == 0
        seen = [client.get("tenants/own") for client in [*clients, named, store]]
        assert seen == [b"violet's", b"violet's", b"", b""]
        assert clients[1].remove("tenants/own", True) == 0


def test_tenants_are_apart_whatever_door_they_come_through(store, master_address, monkeypatch):
    with contextlib.ExitStack() as stack:
        clients = [
            by_keyword(master_address, "red"),
            by_dict(master_address, "blue"),
            by_config(master_address, "green", monkeypatch),
        ]
        for client in clients:
            stack.callback(client.close)
        for number, client in enumerate([store, *clients]):
            assert client.is_exist("tenants/k") == 0
            assert client.put("tenants/k", bytes([number]) * 100) == 0
        for number, client in enumerate([store, *clients]):
            assert client.get("tenants/k") == bytes([number]) * 100
        same = by_dict(master_address, "red")
        stack.callback(same.close)
        assert same.get("tenants/k") == bytes([1]) * 100
        assert clients[0].remove_by_regex("^tenants/", True) == 1
        assert clients[1].remove_all(True) == 1
        seen = [client.is_exist("tenants/k") for client in [store, *clients]]
        assert seen == [1, 0, 0, 1]
        assert clients[2].remove("tenants/k", True) == 0
    assert store.remove("tenants/k", True) == 0


def test_a_key_with_the_reserved_first_character_is_refused(store):
    assert store.put("\x01red\x01key", b"value") == -600
    assert store.is_exist("\x01red\x01key") == -600


@pytest.mark.parametrize("tenant", ["_red", "r\nd", "t" * 65])
def test_a_name_that_no_tenant_can_have_is_refused(master_address, tenant):
    client = MooncakeDistributedStore()
    seven = ("127.0.0.1", "P2PHANDSHAKE", 0, 0, "tcp", "", master_address)
    assert client.setup(*seven, tenant_id=tenant) == -600


@pytest.mark.parametrize("names_master", [False, True])
def test_a_dummy_client_has_the_tenant_of_its_node(
    master_address, names_master, monkeypatch, tmp_path
):
    if names_master:
        monkeypatch.setenv("MOONCAKE_MASTER", master_address)
    else:
        monkeypatch.delenv("MOONCAKE_MASTER", raising=False)
    [port] = free_ports(1)
    node = Process(
        [
            program("mooncake_client"),
            "--host=127.0.0.1",
            f"--port={port}",
            "--global_segment_size=16777216",
            f"--master_server_address={master_address}",
            "--metadata_server=P2PHANDSHAKE",
            "--tenant_id=red",
            "--logtostderr=true",
        ],
        tmp_path / "node.log",
    )
    dummy, red, default = MooncakeDistributedStore(), None, None
    try:
        wait_until(
            lambda: node.alive() and "Ready" in node.log.read_text(errors="replace"),
            START_TIMEOUT_S,
            "the node's readiness",
        )
        assert dummy.setup_dummy(1 << 20, 1 << 20, f"127.0.0.1:{port}") == 0
        red = by_keyword(master_address, "red")
        default = by_keyword(master_address, "default")
        assert dummy.put("through-node", b"value") == 0
        assert red.get("through-node") == b"value"
        assert default.is_exist("through-node") == 0
        assert red.remove("through-node", True) == 0
    finally:
        for client in filter(None, [dummy, red, default]):
            client.close()
        assert node.stop() == 0
