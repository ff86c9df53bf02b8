"""The only peer of a host stands still: it is named, and not the host's own NIC."""

import pytest

from run import play_still
from scene import Missing


@pytest.mark.parametrize("ebpf", [True, False])
def test_the_only_peer_is_named_for_standing_still(ebpf):
    try:
        right, what, seen = play_still(ebpf)
    except Missing as missing:
        pytest.skip(str(missing))
    assert right, f"{what}: {seen or 'nothing'}"
