"""Everything here runs in a network namespace of its own; without the right to make one, it is skipped."""

import namespace
import pytest
from cluster import Cluster

_refused = None


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
def play(tmp_path):
    """Makes clusters; ends their pods, and shows the logs of a test that fails."""
    clusters = []

    def make(manifest=None, **options):
        folder = tmp_path / str(len(clusters))
        folder.mkdir()
        clusters.append(Cluster(folder, manifest, **options))
        return clusters[-1]

    yield make
    for cluster in clusters:
        cluster.close()
        print(cluster.logs())
