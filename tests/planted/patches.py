"""The patches of planted faults: read, applied together, and made to fit a tree that was formatted or renamed."""

import difflib
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FAULTS = Path(__file__).resolve().parent


class Mismatch(Exception):
    """A patch that is not what it should be, or does not fit the code."""


class Fault:
    """One patch. Its text before the first hunk is its head."""

    def __init__(self, patch):
        self.name, self.patch = patch.stem, patch
        self.head, _, rest = patch.read_text().partition("\n--- ")
        self.hunks = f"--- {rest}"
        self.paths = re.findall(r"^--- a/(.+)$", self.hunks, re.M)
        fields = dict(re.findall(r"^(Promise|Found by|With): (.+)$", self.head, re.M))
        if not {"Promise", "Found by"} <= fields.keys():
            raise Mismatch(f"{patch.name} does not begin with 'Promise: ...' and 'Found by: ...'")
        if f'planted::is("{self.name}")' not in self.hunks:
            raise Mismatch(f'{patch.name} does not ask whether crate::planted::is("{self.name}")')
        self.promise = fields["Promise"]
        self.finder = fields["Found by"].split(maxsplit=2)
        self.environment = dict([fields["With"].split("=", 1)]) if "With" in fields else {}
        self.scenario = self.package = self.target = self.filter = None
        match self.finder:
            case ["simulation", scenario]:
                self.scenario = scenario
            case ["test", place, pattern]:
                self.package, _, target = place.partition("/")
                self.target = target or None
                self.filter = pattern
            case _:
                raise Mismatch(f"{patch.name} is found by 'simulation SCENARIO' or by 'test PACKAGE FILTER'")

    def applied(self, read):
        """The files that it touches, with the fault; `read` returns the text of a path."""
        with tempfile.TemporaryDirectory() as folder:
            # No repository, and not to be taken for a folder of the one it may lie in.
            environment = {**os.environ, "GIT_CEILING_DIRECTORIES": os.path.dirname(folder)}
            for path in self.paths:
                (Path(folder) / path).parent.mkdir(parents=True, exist_ok=True)
                (Path(folder) / path).write_text(read(path))
            command = ["git", "apply", str(self.patch)]
            applied = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
            if applied.returncode != 0:
                why = applied.stderr.strip()
                raise Mismatch(f"{self.name} does not apply any more; change it with the code: {why}")
            return {path: (Path(folder) / path).read_text() for path in self.paths}


def read_faults():
    faults = [Fault(patch) for patch in sorted(FAULTS.glob("*.patch"))]
    if not faults:
        raise Mismatch(f"{FAULTS} has no patches")
    return faults


def read_present(path):
    file = ROOT / path
    if not file.is_file():
        raise Mismatch(f"there is no {path}")
    return file.read_text()


def with_all(faults):
    """Every file that a fault touches, with all faults."""
    edits = {}
    for fault in faults:
        for path, text in fault.applied(read_present).items():
            edits.setdefault(path, []).extend(edits_of(fault.name, read_present(path), text))
    return {path: merged(path, read_present(path).splitlines(True), found) for path, found in edits.items()}


def edits_of(name, before, after):
    """What a fault does to a file: lines from here to there become others."""
    before, after = before.splitlines(True), after.splitlines(True)
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    changed = (code for code in matcher.get_opcodes() if code[0] != "equal")
    return [(first, end, name, after[new_first:new_end]) for _, first, end, new_first, new_end in changed]


def merged(path, lines, edits):
    result, at, last = [], 0, None
    for first, end, name, replacement in sorted(edits):
        if first < at:
            raise Mismatch(f"{last} and {name} change the same lines of {path}")
        result += lines[at:first] + replacement
        at, last = end, name
    return "".join(result + lines[at:])


def regenerate(commit):
    """Writes every patch again, so that it fits the present tree: names of files as git finds them, formatting as
    `rustfmt.toml` has it, and other changes merged as git merges them."""
    renamed = renames(commit)
    read_old = lambda path: run(["git", "show", f"{commit}:{path}"])
    failed = []
    for fault in read_faults():
        try:
            hunks = "".join(
                moved_hunks(path, renamed.get(path, path), read_old(path), text)
                for path, text in fault.applied(read_old).items()
            )
        except Mismatch as error:
            failed.append(fault.name)
            print(f"{fault.name}: {error}")
            continue
        fault.patch.write_text(f"{fault.head}\n{hunks}")
    try:
        with_all(read_faults())
    except Mismatch as error:
        sys.exit(f"error: {error}")
    finally:
        print(f"{len(failed)} patches are left as they were" if failed else "All patches fit the present tree")


def renames(commit):
    lines = run(["git", "diff", "--find-renames", "--diff-filter=R", "--name-status", commit]).splitlines()
    return {old: new for _, old, new in (line.split("\t") for line in lines)}


def moved_hunks(old_path, path, before, after):
    """The hunks that make of the present file what a fault made of an earlier one."""
    present, before, after = read_present(path), formatted(before), formatted(after)
    with tempfile.TemporaryDirectory() as folder:
        names = [Path(folder) / name for name in ("present", "before", "after")]
        for name, text in zip(names, (present, before, after)):
            name.write_text(text)
        merge = subprocess.run(["git", "merge-file", "-p", *names], capture_output=True, text=True)
    if merge.returncode != 0:
        raise Mismatch(f"{old_path} has changed where the fault is; change the patch by hand")
    lines = (text.splitlines(True) for text in (present, merge.stdout))
    return "".join(difflib.unified_diff(*lines, f"a/{path}", f"b/{path}"))


def formatted(text):
    """As the present settings format it. From standard input rustfmt does not follow modules into other files."""
    command = ["rustfmt", "--edition", "2024", "--config-path", str(ROOT / "rustfmt.toml")]
    return run(command, input=text)


def run(command, **options):
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, **options)
    if done.returncode != 0:
        raise Mismatch(f"{' '.join(command[:3])}: {done.stderr.strip()}")
    return done.stdout
