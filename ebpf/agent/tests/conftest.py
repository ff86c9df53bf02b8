"""One cluster for the tests that only look. They need root: virtual NICs, probes."""

from __future__ import annotations

import os
import shutil
from secrets import token_hex

import pytest
from cluster import Cluster, until


@pytest.fixture(scope="session", autouse=True)
def root():
    """These tests attach probes and make NICs."""
    if os.environ.get("PERIGEE_WITHOUT_PROBES") == "1":
        pytest.skip("the agent's tests need its probes, and PERIGEE_WITHOUT_PROBES=1 left them out")
    if os.geteuid() != 0:
        pytest.skip("the agent's tests need root; run `sudo make test`")
    assert shutil.which("ip"), "no ip; tools/setup.sh installs it"


@pytest.fixture(scope="session")
def live(root, tmp_path_factory):
    """A cluster with two rails, traffic on both, a disk, and an agent that looks at them."""
    # The disk is only looked at: a budget of nothing keeps the load off it.
    disks = ["--enable_offload", "--offload_on_evict", "--offload_drive_writes_per_day=0.001"]
    with Cluster(tmp_path_factory.mktemp("live"), master_flags=disks) as cluster:
        cluster.start_master()
        for number in range(2):
            disk = cluster.folder / f"disk{number}"
            disk.mkdir()
            flags = ["--enable_offload", f"--ssd_offload_path={disk}"] if number == 0 else []
            cluster.start_node(cluster.add_rail(f"rail{number}-{token_hex(2)}"), flags=flags)
        names = ",".join(rail.name for rail in cluster.rails)
        # Each batch is listed: whether one takes longer than some limit depends on the machine.
        cluster.start_agent(f"--interfaces={names},lo", "--slow_ms=0", "--measure_costs=true")
        cluster.start_load()
        devices = {rail.name for rail in cluster.rails}
        until(
            lambda: devices <= {flow["device"] for flow in cluster.snapshot()["flows"]},
            "traffic on both rails",
        )
        yield cluster
