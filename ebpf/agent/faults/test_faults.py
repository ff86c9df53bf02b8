"""A few runs of every fault; `run.py` plays as many as one likes. Each waits for the agent's verdict with a long deadline."""

import random

import pytest

from run import QUIET_S, play, watch
from scene import Missing, Scene, check

RUNS = {"nic": 5, "loss": 2, "shard": 2, "disk": 2}


@pytest.fixture(scope="module")
def scene():
    try:
        check()
    except Missing as missing:
        pytest.skip(str(missing))
    with Scene() as scene:
        watch(scene, QUIET_S, lambda _: False)
        yield scene


@pytest.mark.parametrize(("kind", "number"), [(kind, number) for kind, runs in RUNS.items() for number in range(runs)])
def test_the_agent_names_what_is_slow_and_nothing_else(scene, kind, number):
    right, what, seen = play(kind, scene, random.Random(f"{kind} {number}"))
    assert right, f"{what}: {seen or 'nothing'}"
