"""Tenants with quotas: the master's file and routes, and what puts of each tenant come to."""

import contextlib
import json
import urllib.error
import urllib.request

import pytest
from conftest import START_TIMEOUT_S, Process, free_ports, listens, program, wait_until

from mooncake.store import MooncakeDistributedStore

OBJECT_BYTES = 256 << 10
MEMORY_BYTES = 64 << 20
QUOTA_BYTES = 4 << 20
# Three times what a quota holds.
OBJECTS = 48
OVER_QUOTA = -1700
UNKNOWN_TENANT = -1701
NOT_EMPTY = -1702
ROUTE = "/api/v1/tenant_quotas"
FILE = """version: 1
tenants:
  - name: red
    quota: 4MB
  - {name: blue, quota: 4194304}
  - name: lender
    quota: 1
"""


class Master:
    """A master whose tenants have the quotas of a file, and its HTTP routes."""

    def __init__(self, stack, folder):
        rpc, self.http = free_ports(2)
        self.address = f"127.0.0.1:{rpc}"
        self.file = folder / "quotas.yaml"
        self.file.write_text(FILE)
        arguments = [
            program("mooncake_master"),
            "--rpc_address=127.0.0.1",
            f"--rpc_port={rpc}",
            "--metrics_host=127.0.0.1",
            f"--metrics_port={self.http}",
            "--default_kv_lease_ttl=50",
            "--enable_multi_tenants",
            f"--tenant_quota_connector_uri={self.file}",
            "--logtostderr=true",
        ]
        self.process = Process(arguments, folder / "master.log")
        stack.callback(self.process.stop)
        wait_until(lambda: self.process.alive() and listens(rpc), START_TIMEOUT_S, "master start")

    def ask(self, method, path, body=None):
        """Return the status and the document that the route answers."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.http}{path}", data=data, method=method
        )
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)

    def quota(self, tenant):
        status, document = self.ask("GET", f"{ROUTE}?tenant_id={tenant}")
        assert status == 200, document
        return document["data"]


@pytest.fixture
def cluster(tmp_path):
    """Yield a master and a function that joins as a tenant; one client lends all memory."""
    with contextlib.ExitStack() as stack:
        master = Master(stack, tmp_path)

        def join(tenant, memory_bytes=0):
            client = MooncakeDistributedStore()
            seven = ("127.0.0.1", "P2PHANDSHAKE", memory_bytes, 16 << 20, "tcp", "")
            assert client.setup(*seven, master.address, tenant_id=tenant) == 0
            stack.callback(client.close)
            return client

        join("lender", MEMORY_BYTES)
        yield master, join


def held(client):
    keys = [f"k{number}" for number in range(OBJECTS)]
    return [key for key, found in zip(keys, client.batch_is_exist(keys), strict=True) if found == 1]


def test_a_tenant_at_its_quota_pays_with_its_own_objects(cluster):
    master, join = cluster
    red, blue, green = join("red"), join("blue"), join("green")
    assert green.put("k", b"value") == UNKNOWN_TENANT
    assert green.put_batch(["a", "b"], [b"value", b"value"]) == UNKNOWN_TENANT
    for number in range(8):
        assert blue.put(f"k{number}", bytes([number]) * OBJECT_BYTES) == 0
    for number in range(OBJECTS):
        value = bytes([100 + number]) * OBJECT_BYTES
        # Nothing may go for a moment while all that red has was just looked at.
        wait_until(lambda: red.put(f"k{number}", value) == 0, START_TIMEOUT_S, "a put of red")  # noqa: B023
    kept = held(red)
    assert 8 <= len(kept) <= QUOTA_BYTES // OBJECT_BYTES
    assert kept[-1] == f"k{OBJECTS - 1}"
    assert red.get(kept[-1]) == bytes([100 + OBJECTS - 1]) * OBJECT_BYTES
    assert held(blue) == [f"k{number}" for number in range(8)]
    assert [blue.get(f"k{number}")[0] for number in range(8)] == list(range(8))
    assert red.put("large", bytes(QUOTA_BYTES + 1)) == OVER_QUOTA
    quota = master.quota("red")
    assert quota["requested_quota_bytes"] == quota["effective_quota_bytes"] == QUOTA_BYTES
    assert len(kept) * OBJECT_BYTES <= quota["charged_bytes"] <= QUOTA_BYTES
    assert quota["object_count"] == len(kept)


def test_quotas_change_by_route_and_in_the_file(cluster):
    master, join = cluster
    green = join("green")
    quota = {"requested_quota_bytes": QUOTA_BYTES}
    status, document = master.ask("PUT", f"{ROUTE}?tenant_id=green", quota)
    assert (status, document["data"]["has_explicit_policy"]) == (200, True)
    assert "green" in master.file.read_text()
    assert green.put("k", b"value") == 0
    names = [one["tenant_id"] for one in master.ask("GET", ROUTE)[1]["data"]]
    assert names == ["blue", "green", "lender", "red"]
    status, document = master.ask("DELETE", f"{ROUTE}?tenant_id=green")
    assert (status, document["error_code"]) == (409, NOT_EMPTY)
    assert green.remove("k", True) == 0
    assert master.ask("DELETE", f"{ROUTE}?tenant_id=green")[0] == 200
    assert green.put("k", b"value") == UNKNOWN_TENANT
    assert "green" not in master.file.read_text()


def test_what_is_lowered_is_enforced_by_the_next_put(cluster):
    master, join = cluster
    red = join("red")
    for number in range(8):
        assert red.put(f"k{number}", bytes(OBJECT_BYTES)) == 0
    lower = {"requested_quota_bytes": QUOTA_BYTES // 4}
    status, document = master.ask("PUT", f"{ROUTE}?tenant_id=red", lower)
    assert (status, document["data"]["over_quota"]) == (200, True)
    assert len(held(red)) == 8
    wait_until(lambda: red.put("k8", bytes(OBJECT_BYTES)) == 0, START_TIMEOUT_S, "a put of red")
    quota = master.quota("red")
    assert not quota["over_quota"] and quota["charged_bytes"] <= QUOTA_BYTES // 4
