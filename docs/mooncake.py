#!/usr/bin/env python3
"""Writes docs/src/settings/mooncake.md from the program's tables of all that Mooncake accepts.

Usage: docs/mooncake.py [--check] [PROGRAM]  PROGRAM: PERIGEE_BIN, else that of `make venv-run`

With --check nothing is written; the exit status is 1 if the page is not up to date.
"""

import json
import subprocess
import sys
from pathlib import Path

from flags import the_program, write_or_check

PAGE = Path(__file__).parent / "src" / "settings" / "mooncake.md"
EFFECTS = ("honoured", "not needed", "not built")
# Title, kind of the program's list, what is said first.
SECTIONS = (
    (
        "Flags",
        "flag",
        "The flags of Mooncake's programs. Ours have more: [Flags and file keys](flags.md) has them with types and defaults.",
    ),
    (
        "Variables",
        "variable",
        "The environment variables that Mooncake reads when it runs. [Environment variables](variables.md) has ranges and defaults.",
    ),
    (
        "Keys",
        "key",
        "Keys of configuration files and dicts. SGLang, vLLM and LMCache read theirs themselves and call Mooncake: their rows name the call.",
    ),
    (
        "Keywords",
        "keyword",
        "Keywords of the calls of `mooncake.store`, `mooncake.engine` and the modules beside them, and attributes of `ReplicateConfig`. Python refuses others with a `TypeError`. "
        "`async_NAME` of `mooncake.async_store` takes the keywords of `NAME`.",
    ),
    (
        "Parameters",
        "parameter",
        "Query parameters of HTTP routes, and fields of their JSON bodies.",
    ),
)
HEAD = """# What Mooncake accepts

Written by `docs/mooncake.py` from `perigee doctor --mooncake-env=all`.

Each flag, variable, key, keyword and parameter of Mooncake 0.3.13 has a row here:

- **honoured**: it has its meaning.
- **not needed**: it has no effect, and nothing is lost without it.
- **not built**: it has no effect, because something is missing.

What has no effect is never silent: it gives a warning where it is set, or is refused. At the start of a program, at `setup` and at `initialize` each variable that is not built has a line,
and one line names all variables that are not needed. A flag counts as set if its value is not the default.

`perigee doctor --mooncake-env` lists the variables that are set in its environment, and names that are nearly right: `MC_TCP_BIND_ADRESS`. Programs, `setup` and `initialize`
warn of such a name, too.
"""


def rows_of(program):
    """Return all rows of one program file, with kind and place."""
    done = subprocess.run(
        [program, "doctor", "--mooncake-env=all", "--format=json"],
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )
    said = json.loads(done.stdout)
    variables = [it | {"kind": "variable", "taken_by": it["group"]} for it in said["variables"]]
    return variables + said["settings"]


def overview(rows):
    """Return a table of how many rows of a kind have which effect."""
    lines = ["| kind | " + " | ".join(EFFECTS) + " |", "|---" * (len(EFFECTS) + 1) + "|"]
    for title, kind, _ in SECTIONS:
        found = [row["effect"] for row in rows if row["kind"] == kind]
        counts = " | ".join(str(found.count(effect)) for effect in EFFECTS)
        lines.append(f"| [{title}](#{title.lower()}) | {counts} |")
    return [*lines, ""]


def by_place(rows):
    """Return the rows of each place, in the order of their first ones."""
    found = {}
    for row in rows:
        found.setdefault(row["taken_by"], []).append(row)
    return found


def by_server(rows):
    """Return the rows of each server; a name has its route before it."""
    found = {}
    for row in rows:
        server, _, route = row["taken_by"].partition(": ")
        found.setdefault(server, []).append(row | {"route": route})
    return found


def table(kind, rows):
    """Return the rows of one place."""
    route = "route | " if kind == "parameter" else ""
    lines = [f"| {route}{kind} | here | what it does, or why it has no effect |"]
    lines.append("|---" * (3 + bool(route)) + "|")
    for row in rows:
        cells = [f"`{row['route']}`"] if route else []
        cells += [f"`{row['name']}`", row["effect"], row["reason"]]
        lines.append(f"| {' | '.join(cells)} |")
    return [*lines, ""]


def page(program):
    """Return the whole page for one program file."""
    rows = rows_of(program)
    lines = [HEAD, *overview(rows)]
    for title, kind, about in SECTIONS:
        lines += [f"## {title}\n", f"{about}\n"]
        of_kind = [row for row in rows if row["kind"] == kind]
        places = by_server(of_kind) if kind == "parameter" else by_place(of_kind)
        for place, members in places.items():
            lines += [f"### {place}\n", *table(kind, members)]
    return "\n".join(lines)


if __name__ == "__main__":
    write_or_check(PAGE, page(the_program(sys.argv[1:])), sys.argv[1:])
