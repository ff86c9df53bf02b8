"""A cluster at work, a host with RDMA ports replayed from files, and a real Prometheus that scrapes them."""

from __future__ import annotations

import json
import re
import shutil
import sys
import urllib.parse
from pathlib import Path
from secrets import token_hex

import pytest

FOLDER = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(FOLDER.parents[1] / "ebpf/agent/tests"))

from cluster import PROGRAM, Cluster, fetch, free_port, until  # noqa: E402

#: Rules look back this far, and wait this long, when they are tested.
WINDOW, PATIENCE = "6s", "1s"
#: Seconds after which the master forgets a silent client.
CLIENT_TTL = 4
#: Milliseconds that a read keeps its object: short, or a fast host reads the whole pool into leases and finds it full.
LEASE_TTL_MS = 200
#: An RDMA port as the kernel shows it.
PORT = {
    "state": "4: ACTIVE", "phys_state": "5: LinkUp", "rate": "100 Gb/sec (4X EDR)",
    "link_layer": "Ethernet", "counters/port_rcv_data": "123456789",
    "counters/port_xmit_data": "987654321", "counters/port_rcv_packets": "1000",
    "counters/port_xmit_packets": "2000", "hw_counters/np_cnp_sent": "7",
    "hw_counters/rp_cnp_handled": "11", "hw_counters/out_of_sequence": "3",
}


class Host:
    """A host with one RDMA port that stands in files, read by an agent of its own."""

    def __init__(self, folder):
        self.sys = folder / "sys"
        device = self.sys / "devices/pci0000:00/0000:00:01.0"
        self.port = device / "infiniband/mlx5_0/ports/1"
        for name, text in PORT.items():
            (self.port / name).parent.mkdir(parents=True, exist_ok=True)
            self.set(name, text)
        for link, target in {
            "class/infiniband/mlx5_0": "infiniband/mlx5_0", "bus/pci/devices/0000:00:01.0": ".",
        }.items():
            (self.sys / link).parent.mkdir(parents=True, exist_ok=True)
            (self.sys / link).symlink_to(device / target)
        (device / "infiniband/mlx5_0/device").symlink_to(device)
        (self.sys / "class/net").mkdir(parents=True)

    def set(self, name, text):
        """Change what the kernel says of the port."""
        (self.port / name).write_text(text + "\n")


class Watched(Cluster):
    """A cluster with two rails, watched by Prometheus."""

    def __init__(self, folder):
        # What is put goes to a disk at once.
        flags = [f"--client_ttl={CLIENT_TTL}", f"--default_kv_lease_ttl={LEASE_TTL_MS}", "--enable_offload"]
        super().__init__(folder, flags)
        self.node_web, self.host_web, self.asked = free_port(), free_port(), free_port()
        self.host = Host(self.folder / "host")

    def up(self):
        """Start everything and wait until Prometheus has recorded rates."""
        self.start_master()
        web = ["--enable_http_server=true", f"--http_port={self.node_web}"]
        self.start_node(self.add_rail(f"rail0-{token_hex(2)}"))
        self.start_node(self.add_rail(f"rail1-{token_hex(2)}"))
        disk = ["--enable_offload", f"--ssd_offload_path={self.folder / 'disk'}"]
        self.start_node(name="node-near", size="64MB", flags=[*web, *disk])
        self.start_agent("--measure_costs=true", "--slow_ms=0")
        self.start(
            "host", PROGRAM, "agent", f"--port={self.host_web}", f"--sysfs={self.host.sys}",
            f"--state_dir={self.folder / 'host-state'}", "--ebpf=false",
        )
        self.start_load()
        self.start(
            "prometheus", "prometheus", f"--config.file={self.configuration()}",
            "--enable-feature=exemplar-storage", f"--storage.tsdb.path={self.folder / 'data'}", f"--web.listen-address=127.0.0.1:{self.asked}",
        )
        until(lambda: self.ask("instance_device:perigee_flow_latency_seconds:p99_rate1m"), "recorded series")

    def configuration(self):
        """The delivered configuration and rules with other ports and shorter times."""
        for name in ("recording.yml", "alerts.yml"):
            text = (FOLDER / "prometheus" / name).read_text()
            text = re.sub(r"\[1m\]", f"[{WINDOW}]", text)
            text = re.sub(r"for: \w+", f"for: {PATIENCE}", text)
            (self.folder / name).write_text(text.replace("interval: 5s", "interval: 1s"))
        text = (FOLDER / "prometheus/perigee.yml").read_text().replace("5s", "1s")
        agents = f"'127.0.0.1:{self.web}', '127.0.0.1:{self.host_web}'"
        for usual, ours in {
            "'127.0.0.1:9003'": f"'127.0.0.1:{self.admin}'",
            "'127.0.0.1:9300'": f"'127.0.0.1:{self.node_web}'", "'127.0.0.1:9305'": agents,
        }.items():
            assert usual in text
            text = text.replace(usual, ours)
        path = self.folder / "perigee.yml"
        path.write_text(text)
        return path

    def prometheus(self, path, **parameters):
        """Data of a route of Prometheus."""
        query = urllib.parse.urlencode(parameters)
        return json.loads(fetch(f"http://127.0.0.1:{self.asked}/api/v1/{path}?{query}"))["data"]

    def ask(self, query):
        """Series that a query gives now."""
        return self.prometheus("query", query=query)["result"]

    def firing(self):
        """Names of the alerts that fire."""
        alerts = self.prometheus("alerts")["alerts"]
        return {alert["labels"]["alertname"] for alert in alerts if alert["state"] == "firing"}


@pytest.fixture(scope="session")
def watched(tmp_path_factory):
    """The cluster; without Prometheus there is nothing to test with."""
    missing = [name for name in ("prometheus", "promtool") if not shutil.which(name)]
    assert not missing, f"{missing} missing: tools/setup.sh installs Debian's package prometheus"
    with Watched(tmp_path_factory.mktemp("watched")) as made:
        made.up()
        yield made
