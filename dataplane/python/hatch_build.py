"""Adds what cargo has built to the wheel, and the tag that says where it runs. Driven by tools/pack-wheel.sh."""

import os
import platform
from pathlib import Path

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

#: Where in the wheel each file of the folder of binaries goes.
PLACES = {"perigee": "mooncake/bin/perigee", "_perigee.abi3.so": "mooncake/_perigee.abi3.so"}
#: The oldest Python of the stable interface that the module uses (`abi3-py311` of pyo3 in Cargo.toml).
PYTHON = "cp311"


class BinariesOfCargo(BuildHookInterface):
    """The hook that hatchling looks for in this file."""

    def initialize(self, version, build_data):
        """Name the files to add and the tag."""
        folder, glibc = os.environ.get("PERIGEE_WHEEL_BINARIES"), os.environ.get("PERIGEE_WHEEL_GLIBC")
        if not folder or not glibc:
            raise RuntimeError("the wheel holds Rust programs: build it with `make wheel` in the repository")
        build_data["pure_python"] = False
        build_data["tag"] = f"{PYTHON}-abi3-manylinux_{glibc.replace('.', '_')}_{platform.machine()}"
        for name, place in PLACES.items():
            build_data["force_include"][str(Path(folder, name))] = place
