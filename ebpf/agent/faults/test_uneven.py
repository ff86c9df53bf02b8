"""Uneven traffic on which nothing is slow; a file of its own, so that no other scene needs the processors meanwhile."""

import pytest

from run import play_uneven
from scene import Missing


@pytest.mark.parametrize("ebpf", [False, True])
def test_nobody_is_blamed_for_pauses_of_those_he_answers_or_because_one_has_gone(ebpf):
    try:
        right, _, seen = play_uneven(ebpf)
    except Missing as missing:
        pytest.skip(str(missing))
    assert right, seen
