"""What the Helm chart renders, played as pods like the plain manifests."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from pod import wait_until

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "tools" / "deploy" / "helm" / "perigee"
TARGET = Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target")
#: `tests/packages/run.sh --install` puts it there.
HELM = shutil.which("helm") or TARGET / "tools" / "helm"
MASTER, STORE = "cache-master", "cache-store"
ENGINE_PORT = 8000
PAGE_BYTES = 64 << 10
PAGES = 32
LARGE_PAGE_BYTES = 1 << 20
NO_ROOM = -200
TIMEOUT_S = 60
#: Leases that end soon, so that objects can be moved.
SHORT_LEASES = {"master": {"args": ["--default_kv_lease_ttl=1000"]}}
KINDS = [
    pytest.param({"kind": "StatefulSet", "replicas": 2}, id="stateful-set"),
    pytest.param({"kind": "DaemonSet"}, id="daemon-set"),
]


@pytest.fixture
def render(tmp_path):
    if not Path(HELM).is_file():
        pytest.skip("no helm here: `tests/packages/run.sh --install` gets it")

    def rendered(values):
        file = tmp_path / "values.yaml"
        file.write_text(json.dumps(values))
        words = [str(HELM), "template", "cache", str(CHART), "--values", str(file)]
        done = subprocess.run(words, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
        assert done.returncode == 0, done.stderr
        return [one for one in yaml.safe_load_all(done.stdout) if one]

    return rendered


def start_engine(cluster, index):
    """An inference engine in a pod of its own, which knows the master by its service."""
    environment = {"MOONCAKE_MASTER": f"{MASTER}:50051", "MOONCAKE_GLOBAL_SEGMENT_SIZE": "0"}
    command = ["python", "-m", "page_store", str(ENGINE_PORT)]
    return cluster.start_command(f"engine-{index}", command, environment).wait_for_port(ENGINE_PORT)


def pages(name):
    return {"keys": [f"{name}/{page}" for page in range(PAGES)], "page_bytes": PAGE_BYTES}


@pytest.mark.parametrize("store", KINDS)
def test_pages_outlive_a_store_pod_of_the_chart_that_is_deleted(play, render, store):
    cluster = play(render({**SHORT_LEASES, "store": {**store, "drainSeconds": 60}}))
    master = cluster.start(MASTER)
    first = cluster.start(STORE, 0)
    writer = start_engine(cluster, 0)
    assert writer.ask(ENGINE_PORT, "/put", pages("first")) == [0] * PAGES
    second = cluster.start(STORE, 1)
    reader = start_engine(cluster, 1)
    assert reader.ask(ENGINE_PORT, "/get", pages("first")) == ["right"] * PAGES
    assert cluster.delete(first) is not None, "it ends within its grace period"
    assert reader.ask(ENGINE_PORT, "/get", pages("first")) == ["right"] * PAGES, master.log()
    status, body = master.http("GET", 9003, "/get_segments_detail")
    owners = [one["te_endpoint"].rpartition(":")[0] for one in json.loads(body)["segments"]]
    assert (status, owners) == (200, [second.address])


def put_all(pod, keys):
    """Put each page as soon as there is room for it."""
    left = keys

    def is_put():
        nonlocal left
        codes = pod.ask(ENGINE_PORT, "/put", {"keys": left, "page_bytes": LARGE_PAGE_BYTES})
        assert set(codes) <= {0, NO_ROOM}, codes
        left = [key for key, code in zip(left, codes, strict=True) if code != 0]
        return not left

    wait_until(is_put, lambda: f"{len(left)} pages have no room\n{pod.log()}")


def test_pages_that_memory_has_no_room_for_are_read_from_the_disk_of_another_pod(play, render):
    disk = {"hostPath": "/srv/kv", "limit": "512Mi"}
    # Scaled as all segments are: 32 MiB.
    store = {"replicas": 1, "segmentSize": "16Gi", "disk": disk}
    # A put waits for the disk rather than that it takes the room of what no disk has yet.
    args = ["--default_kv_lease_ttl=50", "--offload_force_evict=false"]
    cluster = play(render({"master": {"args": args}, "store": store}))
    master, owner = cluster.start(MASTER), cluster.start(STORE)
    writer, reader = start_engine(cluster, 0), start_engine(cluster, 1)
    keys = [f"large/{page}" for page in range(96)]
    # What an engine's pool holds.
    batches = [keys[first : first + 8] for first in range(0, len(keys), 8)]
    for batch in batches:
        put_all(writer, batch)
    for batch in batches:
        found = reader.ask(ENGINE_PORT, "/get", {"keys": batch, "page_bytes": LARGE_PAGE_BYTES})
        assert found == ["right"] * len(batch), owner.log()

    def metric(pod, port, name):
        lines = pod.http("GET", port, "/metrics")[1].decode().splitlines()
        return float(next(line for line in lines if line.startswith(name)).split()[-1])

    assert metric(master, 9003, "file_cache_hit_nums_ ") > 0
    assert metric(owner, 9300, 'perigee_disk_state{path="/mnt/kv",state="healthy"}') == 1
    assert metric(owner, 9300, 'perigee_disk_reads_total{path="/mnt/kv"}') > 0
