"""`transfer_engine_topology_dump`: prints which NICs serve which memory of this host as JSON."""

from __future__ import annotations

import argparse
import os
import sys

from . import MOONCAKE_VERSION, __version__

CUSTOM_VARIABLE = "MC_CUSTOM_TOPO_JSON"
EXIT_USAGE = 1


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """Return the options."""
    parser = argparse.ArgumentParser(
        prog="transfer_engine_topology_dump",
        description="Print which NICs serve which memory of this host: what was found there, "
        "unless a matrix of your own is asked for.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    version = f"%(prog)s version {__version__} (compatible with Mooncake {MOONCAKE_VERSION})"
    parser.add_argument("--version", action="version", version=version)
    parser.add_argument("--device-name", default="", help="only these NICs, separated by commas")
    parser.add_argument(
        "--backend",
        choices=("auto", "te", "tent"),
        default="auto",
        help="form of the output; only te is there, and auto means te",
    )
    parser.add_argument(
        "--use-custom-topo", action="store_true", help=f"print the matrix in ${CUSTOM_VARIABLE}"
    )
    parser.add_argument("--custom-topo-json", metavar="FILE", help="print the matrix in this file")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    """Print the topology; return the exit status."""
    options = parse(arguments)
    custom = options.custom_topo_json
    if custom is None and options.use_custom_topo:
        custom = os.environ.get(CUSTOM_VARIABLE, "")
        if not custom:
            print(f"error: --use-custom-topo needs a file in {CUSTOM_VARIABLE}", file=sys.stderr)
            return EXIT_USAGE
    if options.backend == "tent":
        print("error: the form of --backend=tent is not built; use te", file=sys.stderr)
        return EXIT_USAGE
    if custom is not None and not os.path.isfile(custom):
        print(f"error: there is no file {custom}", file=sys.stderr)
        return EXIT_USAGE
    os.environ[CUSTOM_VARIABLE] = custom or ""

    from .engine import TransferEngine

    mode = "discover" if custom is None else f"custom ({custom})"
    topology = TransferEngine().get_local_topology(device_name=options.device_name or None)
    print(f"Local topology [te/{mode}]: {topology}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
