"""The table of README.md: what finds each planted fault."""

import re
import statistics

from patches import FAULTS, Mismatch

PAGE = FAULTS / "README.md"
HEAD = "| fault | promise that it breaks | found by | after |"


def write_table(faults, plays, seeds):
    """Replaces what follows the head of the table, and the line above it."""
    text, _, _ = PAGE.read_text().partition("\nOf ")
    counted = [played.seeds for played in plays if played.seeds]
    median = f"{statistics.median(counted):.0f}"
    summary = (
        f"\nOf {len(faults)} faults {len(counted)} are found by the simulation, in the median after {median} of "
        f"{seeds} seeds and at the latest after {max(counted)}; the others by a test.\n"
    )
    rows = [row(fault, played) for fault, played in zip(faults, plays)]
    PAGE.write_text("\n".join([text + summary, HEAD, "|---|---|---|---|", *rows, ""]))


def row(fault, played):
    found_by = " ".join(fault.finder[:2]) if played.seeds else f"{fault.package}: `{played.test or fault.filter}`"
    after = f"seed {played.seeds - 1}" if played.seeds else ""
    return f"| `{fault.name}` | {fault.promise} | {found_by} | {after} |"


def check_table(faults):
    """Raises if a fault has no row, or a row no fault."""
    listed = set(re.findall(r"^\| `(.+?)` \|", PAGE.read_text(), re.M))
    if wrong := listed ^ {fault.name for fault in faults}:
        raise Mismatch(f"README.md and the patches differ: {', '.join(sorted(wrong))}; write it with play.py --table")
