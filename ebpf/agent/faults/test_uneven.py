"""Uneven traffic on which nothing is slow; a file of its own, so that no other scene needs the processors at the same time."""

import pytest

from run import play_uneven
from scene import Missing


@pytest.mark.parametrize("ebpf", [False, True])
def test_nothing_is_named_for_pauses_of_answered_peers_or_because_one_has_gone(ebpf):
    try:
        right, _, seen = play_uneven(ebpf)
    except Missing as missing:
        pytest.skip(str(missing))
    assert right, seen
