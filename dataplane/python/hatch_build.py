"""Adds what cargo has built to the wheel, and the tag that says where it runs. Driven by tools/pack-wheel.sh."""

import os
from pathlib import Path

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

#: The program's place in the wheel.
PROGRAM = "mooncake/bin/perigee"


class BinariesOfCargo(BuildHookInterface):
    """The hook that hatchling looks for in this file."""

    def initialize(self, version, build_data):
        """Name the files to add and the tag."""
        folder, tag = os.environ.get("PERIGEE_WHEEL_BINARIES"), os.environ.get("PERIGEE_WHEEL_TAG")
        if not folder or not tag:
            raise RuntimeError("the wheel holds Rust programs: build it with `make wheel` in the repository")
        build_data["pure_python"] = False
        build_data["tag"] = tag
        [module] = Path(folder).glob("_perigee.*.so")
        build_data["force_include"][str(Path(folder, "perigee"))] = PROGRAM
        build_data["force_include"][str(module)] = f"mooncake/{module.name}"
