"""Console scripts: each replaces itself with the bundled `perigee` program under its own name."""

from __future__ import annotations

import sys
from typing import NoReturn

from perigee_mooncake.program import execute, perigee, program_path

__all__ = [
    "execute",
    "mc_store_rest_server",
    "mooncake_client",
    "mooncake_http_metadata_server",
    "mooncake_master",
    "perigee",
    "program_path",
    "transfer_engine_bench",
    "transfer_engine_topology_dump",
]


def mooncake_master() -> NoReturn:
    """Run the master."""
    execute("mooncake_master", sys.argv[1:])


def mooncake_client() -> NoReturn:
    """Run a node that lends its memory."""
    execute("mooncake_client", sys.argv[1:])


def mooncake_http_metadata_server() -> NoReturn:
    """Run the stand-alone metadata service."""
    execute("mooncake_http_metadata_server", sys.argv[1:])


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
