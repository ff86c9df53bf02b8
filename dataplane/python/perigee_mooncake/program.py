"""Starts the bundled `perigee` program in place of this process.

The program takes its personality from argv[0], so arguments, signals and exit codes are its own.
`PERIGEE_BIN` names another program file, for a source tree that has no bundled one.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import NoReturn

BUNDLED_PROGRAM = Path(__file__).resolve().parents[1] / "mooncake" / "bin" / "perigee"
EXIT_NOT_EXECUTABLE = 126
EXIT_NOT_FOUND = 127


def program_path() -> str:
    """Return the program to run: `PERIGEE_BIN` if set, else the one of this wheel."""
    return os.environ.get("PERIGEE_BIN") or str(BUNDLED_PROGRAM)


def execute(personality: str, arguments: list[str]) -> NoReturn:
    """Become the program under the name `personality`; ends this process if it cannot start."""
    program = program_path()
    try:
        if os.path.realpath(program) == os.path.realpath(sys.argv[0]):
            # It would replace itself with itself without end.
            reason, code = "is this script; PERIGEE_BIN must name the program itself", EXIT_NOT_EXECUTABLE
        else:
            os.execv(program, [personality, *arguments])
    except FileNotFoundError:
        reason, code = "was not found; install a wheel that bundles it", EXIT_NOT_FOUND
    except OSError as error:
        reason, code = f"could not be started: {error.strerror}", EXIT_NOT_EXECUTABLE
    print(f"{personality}: {program} {reason}", file=sys.stderr)
    sys.exit(code)


def perigee() -> NoReturn:
    """Run the operator program. It works, and `perigee doctor` explains, where a wheel of Mooncake has overwritten `mooncake`."""
    execute("perigee", sys.argv[1:])
