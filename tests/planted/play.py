#!/usr/bin/env python3
"""Plants faults in a copy of the tree and prints which seed or test finds each, and after how long.

Each fault is a patch beside this file. Its first lines name the promise that it breaks and what should find it:

    Promise: ...
    Found by: simulation SCENARIO
    Found by: test PACKAGE FILTER             (or PACKAGE/TARGET for an integration test)
    With: NAME=VALUE                          (optional: environment of the test)

A patch changes nothing until `crate::planted::is("NAME")` holds, which PERIGEE_PLANTED=NAME chooses (switch.rs). So all
faults are built at once. The build without a choice plays first: if it fails, no verdict on a fault is worth anything.
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from patches import FAULTS, ROOT, Mismatch, read_faults, regenerate, with_all
from table import SEEDS, check_table, write_table

SCRATCH = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "planted"
TREE = SCRATCH / "tree"
SIMULATION = "perigee-simulation"
# The longest build and the longest play. A play that does not end has found its fault.
BUILD_SECONDS = 3000
PLAY_SECONDS = 900


def copy_tree(faults):
    """Brings the copy up to date. Files that stay the same keep their times, so that cargo builds nothing for them."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, check=True).stdout.decode().split("\0")
    wanted = {name: (ROOT / name).read_bytes() for name in names if name and (ROOT / name).is_file()}
    wanted.update((name, text.encode()) for name, text in with_all(faults).items())
    add_switches(wanted, faults)
    for old in TREE.rglob("*"):
        if old.is_file() and str(old.relative_to(TREE)) not in wanted:
            old.unlink()
    for name, content in wanted.items():
        target = TREE / name
        if not target.exists() or target.read_bytes() != content:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)


def add_switches(wanted, faults):
    """Gives the module `planted` to each crate that has a fault, or that compiles a file of another one which has."""
    touched = {path.split("/src/")[0] for fault in faults for path in fault.paths}
    touched |= {crate_of(wanted, fault.package) for fault in faults if fault.package}
    for crate in touched:
        wanted[f"{crate}/src/planted.rs"] = (FAULTS / "switch.rs").read_bytes()
        wanted[f"{crate}/src/lib.rs"] += b"\nmod planted;\n"


def crate_of(wanted, package):
    line = f'name = "{package}"\n'.encode()
    crates = [name for name in wanted if name.endswith("/Cargo.toml") and line in wanted[name]]
    if len(crates) != 1:
        sys.exit(f"error: there is no package {package}")
    return os.path.dirname(crates[0])


class Build:
    """The programs of one build: the simulation, and the tests of packages."""

    def __init__(self, faults):
        packages = sorted({SIMULATION} | {fault.package for fault in faults if fault.package})
        # An integration test of the simulation has its program built, too.
        targets = sorted({"seeds"} | {fault.target for fault in faults if fault.target})
        command = ["cargo", "test", "--locked", "--no-run", "--lib", "--message-format=json-render-diagnostics"]
        command += [word for package in packages for word in ("--package", package)]
        command += [word for target in targets for word in ("--test", target)]
        # Quick to play, and quick to build: what the crates use is left as it is.
        settings = {"CARGO_TARGET_DIR": str(SCRATCH / "build")}
        for profile in ("dev", "test"):
            settings[f"CARGO_PROFILE_{profile.upper()}_OPT_LEVEL"] = "1"
            settings[f"CARGO_PROFILE_{profile.upper()}_DEBUG"] = "0"
            command += ["--config", f'profile.{profile}.package."*".opt-level=0']
        environment = {**os.environ, **settings}
        options = {"cwd": TREE, "env": environment, "timeout": BUILD_SECONDS}
        built = subprocess.run(command, stdout=subprocess.PIPE, text=True, **options)
        if built.returncode != 0:
            sys.exit("error: the tree with all faults does not build")
        self.simulation, self.tests = None, {}
        for line in built.stdout.splitlines():
            artifact = json.loads(line)
            if artifact.get("executable"):
                self.add(artifact)

    def add(self, artifact):
        target = artifact["target"]
        if not artifact["profile"]["test"]:
            if target["name"] == SIMULATION:
                self.simulation = artifact["executable"]
            return
        crate = os.path.dirname(artifact["manifest_path"])
        name = target["name"] if target["kind"] == ["test"] else None
        package = re.search(r'^name = "(.+)"', Path(artifact["manifest_path"]).read_text(), re.M)[1]
        self.tests[package, name] = (artifact["executable"], crate)

    def command(self, fault, seeds):
        if fault.scenario:
            words = ["--scenario", fault.scenario, "--first", "0", "--seeds", str(seeds), "--until-failure"]
            return [self.simulation, *words], TREE
        executable, crate = self.tests[fault.package, fault.target]
        return [executable, fault.filter], crate


class Play:
    """What came of one run: by what a fault was found, after how many seeds and seconds."""

    def __init__(self, command, folder, environment):
        begun = time.monotonic()
        try:
            options = {"cwd": folder, "env": {**os.environ, **environment}, "timeout": PLAY_SECONDS}
            run = subprocess.run(command, capture_output=True, text=True, **options)
            self.output, self.has_failed = run.stdout + run.stderr, run.returncode != 0
            self.by = f"it ended with {run.returncode}"
        except subprocess.TimeoutExpired:
            self.output, self.has_failed, self.by = "", True, f"no end in {PLAY_SECONDS} s"
        self.seconds = time.monotonic() - begun
        self.seeds = self.test = None
        if seed := re.search(r"with seed (\d+): (.+)", self.output):
            self.by, self.seeds = f"seed {seed[1]}: {seed[2]}", int(seed[1]) + 1
        elif test := re.search(r"^test (\S+) .*FAILED$", self.output, re.M):
            self.by, self.test = f"test {test[1]}", test[1]

    def counts_tests(self):
        return sum(int(count) for count in re.findall(r"(\d+) passed", self.output))


def check_baseline(build, faults, seeds):
    """Plays what should find the faults without any of them."""
    plays = {}
    for fault in faults:
        command, folder = build.command(fault, seeds)
        plays.setdefault((*command, *fault.environment.items()), (command, folder, fault))

    def play(entry):
        command, folder, fault = entry
        return fault, Play(command, folder, fault.environment)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for fault, played in pool.map(play, plays.values()):
            subject = " ".join(fault.finder[:3])
            if played.has_failed:
                sys.exit(f"{played.output[-4000:]}\nerror: {subject} fails without a fault, {played.by}")
            if not fault.scenario and not played.counts_tests():
                sys.exit(f"error: {subject} runs no test")
            print(f"{'without a fault':38} {subject}: passes, {played.seconds:.1f} s", flush=True)


def play_all(build, faults, seeds):
    """Plays every fault, in the order of `faults`."""

    def play(fault):
        environment = {"PERIGEE_PLANTED": fault.name, **fault.environment}
        played = Play(*build.command(fault, seeds), environment)
        by = played.by if played.has_failed else "NOT FOUND"
        print(f"{fault.name:38} {' '.join(fault.finder[:2])}, {by}, {played.seconds:.1f} s", flush=True)
        return played

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        plays = list(pool.map(play, faults))
    found = [played for played in plays if played.has_failed]
    counted = [played.seeds for played in found if played.seeds]
    print(f"{len(found)} of {len(plays)} planted faults are found", end="")
    if found:
        print(f"; median {statistics.median(played.seconds for played in found):.1f} s", end="")
    if counted:
        print(f"; those of the simulation after {statistics.median(counted):.0f} seeds", end="")
    print()
    return plays


def chosen_of(faults, names):
    unknown = set(names) - {fault.name for fault in faults}
    if unknown:
        sys.exit(f"error: no such fault: {', '.join(sorted(unknown))}")
    return [fault for fault in faults if not names or fault.name in names]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("faults", nargs="*", help="names; without any, all")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="seeds of a simulation (%(default)s)")
    parser.add_argument(
        "--check", action="store_true", help="only see whether all patches apply and have a row in README.md"
    )
    parser.add_argument("--table", action="store_true", help="write the rows of README.md from what all faults came to")
    parser.add_argument(
        "--regenerate", metavar="COMMIT", help="make the patches, which fit that commit, fit the present tree"
    )
    options = parser.parse_args()
    try:
        if options.regenerate:
            return regenerate(options.regenerate)
        faults = read_faults()
        if options.check:
            with_all(faults)
            check_table(faults)
            return print(f"{len(faults)} planted faults apply")
        copy_tree(faults)
    except Mismatch as error:
        sys.exit(f"error: {error}")
    if options.table and options.faults:
        sys.exit("error: --table needs all faults")
    chosen = chosen_of(faults, options.faults)
    begun = time.monotonic()
    build = Build(faults)
    print(f"Built with {len(faults)} faults in {time.monotonic() - begun:.0f} s", flush=True)
    check_baseline(build, chosen, options.seeds)
    plays = play_all(build, chosen, options.seeds)
    if not all(played.has_failed for played in plays):
        sys.exit(1)
    if options.table:
        write_table(chosen, plays, options.seeds)


if __name__ == "__main__":
    main()
