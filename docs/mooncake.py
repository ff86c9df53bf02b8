#!/usr/bin/env python3
"""Writes docs/src/settings/mooncake.md from the program's table of Mooncake's variables.

Usage: docs/mooncake.py [--check] [PROGRAM]  PROGRAM: PERIGEE_BIN, else that of `make venv-run`

With --check nothing is written; the exit status is 1 if the page is not up to date.
"""

import itertools
import json
import subprocess
import sys
from pathlib import Path

from flags import the_program, write_or_check

PAGE = Path(__file__).parent / "src" / "settings" / "mooncake.md"
HEAD = """# Variables of Mooncake

Written by `docs/mooncake.py` from `perigee doctor --mooncake-env=all`.

These are the {count} environment variables that Mooncake 0.3.13 reads when it runs. What each does here:

- **honoured**: it has its meaning; [Environment variables](variables.md) has ranges and defaults.
- **not needed**: it has no effect, and nothing is lost without it. One warning names all that are set.
- **not built**: it has no effect, because something is missing. Each that is set gives a warning at the start of a program, at `setup` and at `initialize`.

`perigee doctor --mooncake-env` lists those that are set in its environment, and names that are nearly right: `MC_TCP_BIND_ADRESS`. Programs, `setup` and `initialize`
warn of such a name, too.
"""


def page(program):
    """Return the whole page for one program file."""
    done = subprocess.run(
        [program, "doctor", "--mooncake-env=all", "--format=json"],
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )
    rows = json.loads(done.stdout)["variables"]
    lines = [HEAD.format(count=len(rows))]
    for group, members in itertools.groupby(rows, key=lambda row: row["group"]):
        lines += [f"## {group}\n", "| variable | here | what it sets, or why it has no effect |"]
        lines.append("|---|---|---|")
        lines += [f"| `{it['name']}` | {it['effect']} | {it['reason']} |" for it in members]
        lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    write_or_check(PAGE, page(the_program(sys.argv[1:])), sys.argv[1:])
