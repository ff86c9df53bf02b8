"""The table of README.md: what finds each planted fault."""

import re
import statistics

from patches import FAULTS, Mismatch

# Seeds of a simulation, if the command names no number.
SEEDS = 200
PAGE = FAULTS / "README.md"
HEAD = "| fault | promise that it breaks | found by | after |"


def write_table(faults, plays, seeds):
    """Replaces what follows the head of the table, and the line above it."""
    text, _, _ = PAGE.read_text().partition("\nOf ")
    counted = [played.seeds for played in plays if played.seeds]
    rows = [row(fault, played) for fault, played in zip(faults, plays)]
    PAGE.write_text("\n".join([f"{text}\n{summary(len(faults), counted, seeds)}\n", HEAD, "|---|---|---|---|", *rows, ""]))


def summary(played, counted, seeds=SEEDS):
    """Of so many faults that were played: those with a number of seeds are the simulation's."""
    return (
        f"Of {played} faults that were played {len(counted)} are found by the simulation, in the median after "
        f"{statistics.median(counted):.0f} of {seeds} seeds and at the latest after {max(counted)}; the others by a test."
    )


def row(fault, played):
    found_by = " ".join(fault.finder[:2]) if played.seeds else f"{fault.package}: `{played.test or fault.filter}`"
    after = f"seed {played.seeds - 1}" if played.seeds else ""
    return f"| `{fault.name}` | {fault.promise} | {found_by} | {after} |"


def check_table(faults):
    """Raises if a fault has no row, a row has no fault, or the line above the table counts other rows."""
    text = PAGE.read_text()
    listed = set(re.findall(r"^\| `(.+?)` \|", text, re.M))
    if wrong := listed ^ {fault.name for fault in faults}:
        raise Mismatch(f"README.md and the patches differ: {', '.join(sorted(wrong))}; write it with play.py --table")
    seeds = [int(seed) for seed in re.findall(r"\| seed (\d+) \|$", text, re.M)]
    unplayed = len(re.findall(r"\| not played yet \|$", text, re.M))
    if summary(len(listed) - unplayed, [seed + 1 for seed in seeds]) not in text:
        raise Mismatch("README.md counts other faults than its table has; write it with play.py --table")
