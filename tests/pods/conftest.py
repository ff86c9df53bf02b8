"""Everything here runs in a network namespace of its own; without the right to make one, it is skipped."""

import sys

import namespace
import pytest
from cluster import Cluster

_refused = None


def pytest_addoption(parser):
    parser.addoption(
        "--pods-python",
        default=sys.executable,
        help="the pods' Python, such as one with the real Mooncake; the programs beside it are the pods' programs",
    )


def pytest_configure(config):
    global _refused
    config.addinivalue_line("markers", "long: minutes; left out unless PERIGEE_PODS=long")
    try:
        namespace.enter()
    except namespace.NotAllowed as error:
        _refused = f"no namespaces here: {error}"


def pytest_collection_modifyitems(items):
    if _refused:
        for item in items:
            item.add_marker(pytest.mark.skip(reason=_refused))


@pytest.fixture
def play(tmp_path, request):
    """Makes clusters; ends their pods, and shows the logs of a test that fails."""
    clusters = []

    def make(manifest=None, **options):
        folder = tmp_path / str(len(clusters))
        folder.mkdir()
        python = request.config.getoption("--pods-python")
        clusters.append(Cluster(folder, manifest, python=python, **options))
        return clusters[-1]

    yield make
    for cluster in clusters:
        cluster.close()
        print(cluster.logs())
