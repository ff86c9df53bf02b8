"""Makes one thing of a host slow, again and again, and counts how often the agent names it and nothing else.

Usage: run.py [--nic N] [--loss N] [--shard N] [--disk N] [--still N] [--uneven N] [--seed S] [--no-ebpf]: that many runs of each
fault, in random order, on one scene (scene.py); `still` has a scene of its own (lone.py); `uneven` is no fault at all, but traffic
that looks like one (trio.py), and right if nothing is named. A run is right if from the fault's beginning to its end the agent's list of suspects held the faulty thing and
nothing else of the scene, and was empty before and after. Disks are those of the whole machine: one that is not the scene's may
be slow in truth, so it is shown and not counted. Exit status 1 if a run was wrong; 77 if this machine cannot play the scene.
"""

import argparse
import random
import signal
import sys
import time

from lone import Lone
from scene import NICS, Missing, Scene
from trio import Trio

# One turn of the agent is a second: it needs a baseline before, and five bad turns to name a
# subject.
QUIET_S = 15
BLAME_S = 40
LINGER_S = 2
CLEAR_S = 60
LOOK_S = 0.5
DELAYS_US = (200, 5000)
LOSSES_PER_MILLE = (1, 3, 10)
UNEVEN_S = 40
LEFT_S = 30


def suspects(scene):
    return {(suspect["kind"], suspect["name"]): suspect["evidence"] for suspect in scene.snapshot()["suspects"]}


def of_scene(scene, found):
    disk = scene.loop.removeprefix("/dev/")
    return {who: text for who, text in found.items() if who[0] != "disk" or who[1] == disk}


def watch(scene, seconds, until):
    """All suspects until `until` says that it is enough, or the time is over."""
    seen = {}
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        now = suspects(scene)
        seen.update(now)
        if until(now):
            break
        time.sleep(LOOK_S)
    return seen


def fault(kind, scene, chance):
    """What is done, what to name, how to do it and how to undo it."""
    if kind == "nic":
        nic = chance.choice(NICS)
        low, high = DELAYS_US
        delay_us = round(low * (high / low) ** chance.random())
        return f"{delay_us} us on {nic}", nic, lambda: scene.spoil(nic, microseconds=delay_us), lambda: scene.spoil(nic)
    if kind == "loss":
        nic, per_mille = chance.choice(NICS), chance.choice(LOSSES_PER_MILLE)
        return f"{per_mille} of 1000 lost on {nic}", nic, lambda: scene.spoil(nic, per_mille=per_mille), lambda: scene.spoil(nic)
    if kind == "shard":
        thread = "perigee/perigee-engine"
        return "0.5 % of a core", thread, lambda: scene.starve(True), lambda: scene.starve(False)
    disk = scene.loop.removeprefix("/dev/")
    rate = chance.choice((5, 10, 20))
    return f"{rate} requests a second", disk, lambda: scene.throttle(rate), lambda: scene.throttle(0)


def is_named(kind, name, found):
    # Threads of one name bear their number too.
    kind = "nic" if kind == "loss" else kind
    return any(who[0] == kind and (who[1] == name or kind == "shard" and who[1].startswith(name)) for who in found)


def play(kind, scene, chance):
    what, name, begin, end = fault(kind, scene, chance)
    is_clear = lambda now: not of_scene(scene, now)  # noqa: E731
    before = suspects(scene)
    begin()
    seen = watch(scene, BLAME_S, lambda now: is_named(kind, name, now))
    seen |= watch(scene, LINGER_S, lambda _: False)
    end()
    seen |= watch(scene, CLEAR_S, is_clear)
    blamed = of_scene(scene, seen)
    right = len(blamed) == 1 and is_named(kind, name, blamed) and is_clear(before)
    return right, what, seen


def play_uneven(ebpf, log=None):
    """All suspects while the host under test asks one and answers another, and after it has stopped to ask."""
    with Trio(log, ebpf) as trio:
        uneven = watch(trio, UNEVEN_S, lambda _: False)
        trio.leave()
        left = watch(trio, LEFT_S, lambda _: False)
    innocent = [only_of_load(seen) for seen in (uneven, left)]
    return not any(innocent), "pauses, then one stops", innocent[0] | innocent[1]


def play_still(ebpf, log=None):
    """The only peer of a host is stopped, then stopped for a part of each second, then starved: it is named, and not the NIC."""
    seen, right = {}, True
    with Lone(log, ebpf) as lone:
        name = lone.address(2)
        right &= not only_of_load(watch(lone, QUIET_S, lambda _: False))
        for fault in (lone.freeze, lone.stop, lone.starve):
            fault()
            blamed = watch(lone, BLAME_S, lambda now: ("peer", name) in now)
            blamed |= watch(lone, LINGER_S, lambda _: False)
            lone.well()
            blamed |= watch(lone, CLEAR_S, lambda now: not only_of_load(now))
            right &= set(only_of_load(blamed)) == {("peer", name)}
            seen |= blamed
    return right, "the only peer stopped, stopped now and then, starved", seen


def only_of_load(found):
    """Without disks, which the scene does not have."""
    return {who: text for who, text in found.items() if who[0] != "disk"}


def report(kind, right, what, seen):
    found = "; ".join(f"{who[0]} {who[1]}: {text}" for who, text in seen.items())
    print(f"{kind}: {what}: {'right' if right else 'WRONG'}: {found or 'nothing'}", flush=True)


def play_faults(runs, options, chance, rights):
    with Scene(options.log, not options.no_ebpf) as scene:
        quiet = watch(scene, QUIET_S, lambda _: False)
        print(f"quiet: {quiet or 'nothing named'}", flush=True)
        for kind in runs:
            right, what, seen = play(kind, scene, chance)
            rights[kind] += right
            report(kind, right, what, seen)


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    for kind in ("nic", "loss", "shard", "disk", "still", "uneven"):
        arguments.add_argument(f"--{kind}", type=int, default=0, metavar="N")
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--no-ebpf", action="store_true", help="level 0: only what needs no privilege")
    arguments.add_argument("--log", help="file for what agent and engines say")
    options = arguments.parse_args()
    # Both end the scene in order: a background shell has its children ignore one of them.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: sys.exit(130))
    chance = random.Random(options.seed)
    runs = [kind for kind in ("nic", "loss", "shard", "disk") for _ in range(getattr(options, kind))]
    chance.shuffle(runs)
    rights = {kind: 0 for kind in runs}
    try:
        for kind, play_one in (("still", play_still), ("uneven", play_uneven)):
            for _ in range(getattr(options, kind)):
                right, what, seen = play_one(not options.no_ebpf, options.log)
                rights[kind] = rights.get(kind, 0) + right
                report(kind, right, what, seen)
        if runs:
            play_faults(runs, options, chance, rights)
    except Missing as missing:
        print(f"SKIP: {missing}")
        sys.exit(77)
    wanted = {kind: getattr(options, kind) for kind in rights}
    for kind, right in rights.items():
        print(f"{kind}: {right} of {wanted[kind]} right, no other named")
    sys.exit(rights != wanted)


if __name__ == "__main__":
    main()
