#!/usr/bin/env python3
"""Makes a package index (PEP 503) of wheels, and of the alias wheel `mooncake-transfer-engine` that depends on ours.

Usage: tools/index-wheels.py OUT WHEEL...     then: pip install --index-url file://OUT perigee-mooncake

Copy the folder to any web server, or use it as it is. HATCHLING names the program that builds the alias.
"""

import hashlib
import html
import os
import re
import shutil
import subprocess
import sys
from email.parser import BytesParser
from pathlib import Path
from urllib.parse import quote
from zipfile import ZipFile

ALIAS = Path(__file__).resolve().parents[1] / "dataplane" / "python" / "alias"
PAGE = "<!DOCTYPE html>\n<html><body>\n{}</body></html>\n"


def metadata(wheel):
    """Headers of the METADATA file of a wheel."""
    with ZipFile(wheel) as archive:
        [name] = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        return BytesParser().parsebytes(archive.read(name))


def normalized(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def link(wheel):
    """One line of a project's page."""
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    python = html.escape(metadata(wheel)["Requires-Python"] or "", quote=True)
    return f'<a href="{quote(wheel.name)}#sha256={digest}" data-requires-python="{python}">{wheel.name}</a><br>\n'


def build_alias(out):
    hatchling = os.environ.get("HATCHLING", "hatchling")
    command = [hatchling, "build", "--target", "wheel", "--directory", str(out)]
    subprocess.run(command, cwd=ALIAS, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def write(out, wheels):
    """Write the index: a folder per project with its wheels, and pages of links."""
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    build_alias(out)
    alias = next(out.glob("*.whl"))
    folders = {}
    for wheel in [alias, *wheels]:
        folder = out / normalized(metadata(wheel)["Name"])
        folder.mkdir(exist_ok=True)
        folders.setdefault(folder, []).append(Path(shutil.copy(wheel, folder)))
    alias.unlink()
    for folder, files in folders.items():
        (folder / "index.html").write_text(PAGE.format("".join(link(wheel) for wheel in sorted(files))))
    names = sorted(folder.name for folder in folders)
    (out / "index.html").write_text(PAGE.format("".join(f'<a href="{name}/">{name}</a><br>\n' for name in names)))


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    write(Path(sys.argv[1]).resolve(), [Path(argument) for argument in sys.argv[2:]])
