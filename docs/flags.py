#!/usr/bin/env python3
"""Writes docs/src/settings/flags.md from what the programs say of themselves.

Usage: docs/flags.py [--check] [PROGRAM]     PROGRAM: PERIGEE_BIN, else that of `make venv-run`

With --check nothing is written; the exit status is 1 if the page is not up to date.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parent / "src" / "settings" / "flags.md"
DEFAULT_PROGRAM = Path(__file__).parents[1] / "target" / "venv-run" / "bin" / "perigee"
COMMANDS = (
    ["master"],
    ["node"],
    ["metadata"],
    ["agent"],
    ["status"],
    ["drain"],
    ["top"],
    ["trace"],
    ["doctor"],
    ["check"],
    ["bundle"],
    ["topology"],
    ["inspect", "key"],
    ["inspect"],
    ["bench", "nic"],
    ["bench", "store"],
    ["bench", "engine"],
    ["bench", "master"],
    ["bench", "trace"],
    ["bench", "policy"],
    ["bench", "disk"],
    ["bench", "machine"],
    ["bench", "compare"],
)
LOGS = "Logs"
NOT_SETTINGS = "Asked instead of starting"
FLAG = re.compile(r"-(\w+) \((.*)\) type: (\w+) default: (.*)", re.DOTALL)
STATE = re.compile(r" \[(not built yet|no effect|deprecated): ([^\]]*)\]$")
HEAD = """# Flags and file keys

Written by `docs/flags.py` from what each program prints for `--help`.

A setting is written `--name=value` or `--name value`; yes or no is `--name` or `--noname`.
As a variable it is `PERIGEE_PROGRAM_NAME`, for example `PERIGEE_MASTER_RPC_PORT`. The master and the node also read it as a key of `--config_path`.
A setting marked *not built yet* is accepted for old configurations: another value than the default gives a warning and has no effect.
Those that decide who owns or may read data end the start instead, unless `allow_unbuilt` is set.
"""


def groups(text):
    """Yield (title, [(name, meaning, type, default)]) of one help text."""
    title, entries = None, []
    for block in re.split(r"\n(?=  ?\S| {4}-)", text):
        line = " ".join(block.split())
        if re.fullmatch(r"  [A-Z][^\n]*:", block.strip("\n")):
            if title:
                yield title, entries
            title, entries = line[:-1], []
        elif title and (found := FLAG.fullmatch(line)):
            entries.append(found.groups())
    if title:
        yield title, entries


def row(name, meaning, kind, default):
    state = STATE.search(meaning)
    note = ""
    if state:
        meaning = meaning[: state.start()]
        note = f" *{state[1]}: {state[2]}*"
    default = default.strip('"')
    shown = f"`{default}`" if default else "empty"
    return f"| `{name}` | {kind} | {shown} | {meaning}.{note} |".replace("..", ".")


def table(entries):
    lines = ["| name | type | default | meaning |", "|---|---|---|---|"]
    return lines + [row(*entry) for entry in entries]


def page(program):
    """Return the whole page for one program file."""
    lines, logs = [HEAD], None
    for command in COMMANDS:
        done = subprocess.run(
            [program, *command, "--help"], capture_output=True, text=True, check=True, timeout=30
        )
        lines.append(f"## perigee {' '.join(command)}\n")
        found = [group for group in groups(done.stdout) if group[0] != NOT_SETTINGS]
        assert any(entries for _, entries in found), f"{command} has no settings"
        for title, entries in found:
            if title == LOGS:
                logs = entries
                lines.append("The settings of [logs](#logs) as well.\n")
                continue
            lines += [f"**{title}**\n", *table(entries), ""]
    return "\n".join([*lines, "## Logs\n", *table(logs), ""])


def the_program(arguments):
    """Return the program file that the words of a command line name, or the usual one."""
    rest = [argument for argument in arguments if argument != "--check"]
    return rest[0] if rest else os.environ.get("PERIGEE_BIN") or str(DEFAULT_PROGRAM)


def write_or_check(path, text, arguments):
    """Write a page; with --check end with an error if it is another one."""
    if "--check" not in arguments:
        path.write_text(text)
    elif not path.exists() or path.read_text() != text:
        sys.exit(f"{path} is not what the program prints; run docs/{Path(sys.argv[0]).name}")


if __name__ == "__main__":
    write_or_check(PAGE, page(the_program(sys.argv[1:])), sys.argv[1:])
