#!/usr/bin/env python3
"""Plants one fault after the other in a copy of the tree and tells which seed or test finds each, and after how long.

A fault is a patch beside this file. Its first lines say which promise it breaks and what should find it:

    Promise: ...
    Found by: simulation SCENARIO
    Found by: test PACKAGE FILTER

Your tree is never changed. Copy and build lie in target/planted; only crates that a fault touches are built again.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FAULTS = Path(__file__).resolve().parent
SCRATCH = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "planted"
TREE = SCRATCH / "tree"
# Longest that one build or one play takes. A play that does not end has found its fault, too.
BUILD_SECONDS = 1800
PLAY_SECONDS = 900


class Fault:
    def __init__(self, patch):
        self.name, self.patch = patch.stem, patch
        text = patch.read_text()
        head = dict(re.findall(r"^(Promise|Found by): (.+)$", text.split("\n--- ")[0], re.M))
        if head.keys() != {"Promise", "Found by"}:
            sys.exit(f"error: {patch.name} begins with neither 'Promise: ...' nor 'Found by: ...'")
        self.promise, self.finder = head["Promise"], head["Found by"].split(maxsplit=2)
        if self.finder[0] not in ("simulation", "test"):
            sys.exit(f"error: {patch.name} is found by 'simulation SCENARIO' or by 'test PACKAGE FILTER'")

    def apply(self, *options):
        # The copy is no repository, and must not be taken for a folder of the one it lies in.
        environment = {**os.environ, "GIT_CEILING_DIRECTORIES": str(TREE.parent)}
        command = ["git", "apply", *options, str(self.patch)]
        applied = subprocess.run(command, cwd=TREE, env=environment, capture_output=True, text=True)
        if applied.returncode != 0:
            sys.exit(f"error: {self.name} does not apply any more: {applied.stderr.strip()}")


def copy_tree():
    """Brings the copy up to date; files that are the same keep their times, so that nothing is built for them."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, check=True).stdout.decode().split("\0")
    wanted = {name for name in names if name and (ROOT / name).is_file()}
    for old in TREE.rglob("*"):
        if old.is_file() and str(old.relative_to(TREE)) not in wanted:
            old.unlink()
    for name in wanted:
        source, target = ROOT / name, TREE / name
        if not target.exists() or target.read_bytes() != source.read_bytes():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)


def run(command, seconds):
    environment = {"CARGO_PROFILE_DEV_OPT_LEVEL": "1", **os.environ, "CARGO_TARGET_DIR": str(SCRATCH / "build")}
    try:
        return subprocess.run(command, cwd=TREE, env=environment, capture_output=True, text=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        return None


def build(command):
    built = run(["cargo", *command], BUILD_SECONDS)
    if built is None or built.returncode != 0:
        sys.exit(f"error: cargo {' '.join(command)} failed\n{built.stderr if built else 'in time'}")


def play(fault, seeds):
    """What finds a fault, or None."""
    kind, subject = fault.finder[:2]
    if kind == "simulation":
        build(["build", "--locked", "--package", "perigee-simulation"])
        program = SCRATCH / "build/debug/perigee-simulation"
        command = [str(program), "--scenario", subject, "--seeds", str(seeds), "--until-failure"]
    else:
        package = ["--locked", "--package", subject]
        build(["test", *package, "--no-run"])
        command = ["cargo", "test", "--quiet", *package, *fault.finder[2:]]
    begun = time.monotonic()
    played = run(command, PLAY_SECONDS)
    seconds = time.monotonic() - begun
    if played is None:
        return f"{kind} {subject}: no end in {seconds:.0f} s"
    if played.returncode == 0:
        return None
    seed = re.search(r"with seed (\d+): (.+)", played.stdout)
    test = re.search(r"^    (\S+)$", played.stdout, re.M)
    by = f"seed {seed[1]}: {seed[2]}" if seed else test[1] if test else "a failure"
    return f"{kind} {subject}, {by}, {seconds:.1f} s"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("faults", nargs="*", help="names; all without any")
    parser.add_argument("--seeds", type=int, default=200, help="seeds of a simulation (%(default)s)")
    options = parser.parse_args()
    faults = [Fault(patch) for patch in sorted(FAULTS.glob("*.patch"))]
    unknown = set(options.faults) - {fault.name for fault in faults}
    if unknown:
        sys.exit(f"error: no such fault: {', '.join(sorted(unknown))}")
    chosen = [fault for fault in faults if not options.faults or fault.name in options.faults]
    copy_tree()
    missed = 0
    for fault in chosen:
        fault.apply()
        try:
            found = play(fault, options.seeds)
        finally:
            fault.apply("--reverse")
        missed += found is None
        print(f"{fault.name:40} {found or 'NOT FOUND'}", flush=True)
    print(f"{len(chosen) - missed} of {len(chosen)} planted faults are found")
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
