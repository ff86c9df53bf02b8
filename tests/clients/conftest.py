"""Fixtures: a cluster whose leases are short, and client processes of it."""

import os

import pytest
from client_process import ClientProcess

from bench.demo.cluster import Cluster

NODES = 2
POOL_BYTES = 256 << 20
#: Long enough for every get of these tests, short enough to wait for its end.
LEASE_MS = 2000
CORE_LIMIT_ENVIRONMENT = {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}


class ShortLeaseCluster(Cluster):
    """The demo's cluster with leases that a test can wait for, and the address of its last node."""

    def launch(self, name, program_name, *flags):
        [port] = [
            flag.split("=")[1] for flag in flags if flag.startswith(("--port=", "--rpc_port="))
        ]
        self.node_address = f"127.0.0.1:{port}"
        if name == "master":
            flags = (*flags, f"--default_kv_lease_ttl={LEASE_MS}")
        super().launch(name, program_name, *flags)


@pytest.fixture
def cluster(request, tmp_path):
    """Its parameter, if a test gives one, is the pool's size in bytes."""
    pool_bytes = getattr(request, "param", POOL_BYTES)
    running = ShortLeaseCluster(NODES, pool_bytes // NODES, str(tmp_path))
    try:
        yield running
        for process in running.processes:
            process.check_running()
    finally:
        complaints = running.stop()
    assert complaints == [] or os.environ.get("PERIGEE_CLIENTS_CONTROL"), complaints


@pytest.fixture
def process(tmp_path):
    """Starts `function` of a driver module in a process of its own, as `module:function`."""
    started = []

    def start(function, environment=None, **arguments):
        child = ClientProcess(
            function,
            arguments,
            tmp_path / f"client-{len(started) + 1}",
            {**CORE_LIMIT_ENVIRONMENT, **(environment or {})},
        )
        started.append(child)
        return child

    yield start
    for child in started:
        child.kill()


@pytest.fixture
def client(cluster, process):
    """As `process`, for functions that get the cluster's address."""

    def start(function, environment=None, **arguments):
        where = {"master": cluster.master_address, "http_port": cluster.http_port}
        return process(function, environment, **where, **arguments)

    return start
