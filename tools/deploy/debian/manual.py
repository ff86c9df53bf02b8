#!/usr/bin/env python3
"""Writes manual pages from what a program says for --help: manual.py PROGRAM OUT. One page for it, one for each command."""

import re
import subprocess
import sys
from pathlib import Path

PAGE = """.TH {title} 1 "" "{source}" "Perigee"
.SH NAME
{name} \\- {summary}
.SH SYNOPSIS
.B {synopsis}
[\\fI\\-\\-name=value\\fR ...]
.SH DESCRIPTION
.nf
{text}
.fi
.SH SEE ALSO
.BR perigee (1)
"""


def says(program, *words):
    """What the program prints."""
    return subprocess.run([program, *words], capture_output=True, text=True, check=True, timeout=30).stdout


def escaped(text):
    """Text that roff shows as it is."""
    lines = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").splitlines()
    return "\n".join(f"\\&{line}" for line in lines)


def page(name, synopsis, summary, text, source):
    return PAGE.format(
        title=name.upper(), name=name, synopsis=synopsis, summary=escaped(summary)[2:], text=escaped(text), source=source
    )


def main(program, out):
    out.mkdir(parents=True, exist_ok=True)
    source = " ".join(says(program, "--version").split()[:2])
    overview = says(program, "--help")
    headline = overview.splitlines()[0].partition(": ")[2]
    (out / "perigee.1").write_text(page("perigee", "perigee COMMAND", headline, overview, source))
    listed = overview.split("Commands:\n")[1].split("\n\n")[0]
    commands = dict(re.findall(r"^  (\w+) +(.*)$", listed, re.MULTILINE))
    for command, summary in commands.items():
        if command in ("help", "version"):
            continue
        name, text = f"perigee-{command}", says(program, command, "--help")
        (out / f"{name}.1").write_text(page(name, f"perigee {command}", summary, text, source))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(sys.argv[1], Path(sys.argv[2]))
