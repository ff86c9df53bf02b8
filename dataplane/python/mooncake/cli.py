"""Console scripts: each replaces itself with the bundled `perigee` program.

The program takes its personality from argv[0], so arguments, signals and exit codes are its own.
`PERIGEE_BIN` names another program file, for a source tree that has no bundled one.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import NoReturn

BUNDLED_PROGRAM = Path(__file__).resolve().parent / "bin" / "perigee"
EXIT_NOT_EXECUTABLE = 126
EXIT_NOT_FOUND = 127


def program_path() -> str:
    """Return the program to run: `PERIGEE_BIN` if set, else the one inside this package."""
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


def mooncake_master() -> NoReturn:
    """Run the master."""
    execute("mooncake_master", sys.argv[1:])


def mooncake_client() -> NoReturn:
    """Run a node that lends its memory."""
    execute("mooncake_client", sys.argv[1:])


def mooncake_http_metadata_server() -> NoReturn:
    """Run the stand-alone metadata service."""
    execute("mooncake_http_metadata_server", sys.argv[1:])


def perigee() -> NoReturn:
    """Run the operator program."""
    execute("perigee", sys.argv[1:])


def transfer_engine_bench() -> NoReturn:
    """Measure transfers between two engines."""
    execute("transfer_engine_bench", sys.argv[1:])


def transfer_engine_topology_dump() -> NoReturn:
    """Print which NICs serve which memory, in this interpreter."""
    from .transfer_engine_topology_dump import main

    sys.exit(main())


def mc_store_rest_server() -> None:
    """Run the REST store service in this interpreter."""
    from .mooncake_store_service import main

    main()
