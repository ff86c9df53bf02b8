"""One daemon, one image, one set of pods for all tests."""

from __future__ import annotations

import os
import subprocess

import pytest
from daemon import Daemon
from pod import Pods

NAMES = ("master", "node", "service", "prefill", "decode")


@pytest.fixture(scope="session")
def daemon():
    """A Docker daemon with our image."""
    assert os.geteuid() == 0, "containers need root"
    with Daemon() as started:
        started.build()
        yield started


@pytest.fixture(scope="session")
def pods(daemon):
    """Empty pods on one bridge."""
    with Pods(daemon) as made:
        made.add(*NAMES)
        yield made


@pytest.fixture(scope="session")
def master(pods):
    """A master with its metadata service, ready."""
    container = pods.start("master", "mooncake_master", "--enable_http_metadata_server=true")
    pods.answers(container, "master", 9003, "/health")
    return container


@pytest.fixture(scope="session")
def node(pods, master):
    """A node that lends 256 MiB, mounted."""
    container = pods.start(
        "node", "mooncake_client", "--master_server_address=master:50051",
        "--metadata_server=http://master:8080/metadata", f"--host={pods.addresses['node']}",
        "--global_segment_size=256MB",
    )
    pods.answers(container, "master", 9003, "/get_all_segments")
    return container
