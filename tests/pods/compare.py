"""Plays the pods with the real Mooncake and with ours, and prints which tests pass with which.

    python tests/pods/compare.py --real PYTHON

PYTHON belongs to a virtual environment with the real package and what it needs:
pip install mooncake-transfer-engine-non-cuda aiohttp numpy requests pyyaml. Ends with 1 if the real one passes what ours does not.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as xml
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
NEEDED = "import aiohttp, mooncake.engine, mooncake.store, yaml"


def verdicts(python, selected):
    """Outcome of each test with these programs."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(FOLDER)]
        command += [f"--pods-python={python}", f"--junit-xml={report}", *selected, str(FOLDER)]
        subprocess.run(command, env={**os.environ, "PERIGEE_PODS": "long"}, stdout=sys.stderr, check=False)
        cases = xml.parse(report).getroot().iter("testcase")
        return {f"{case.get('classname')}::{case.get('name')}": outcome(case) for case in cases}


def outcome(case):
    found = {child.tag for child in case}
    if found & {"failure", "error"}:
        return "fails"
    return "skipped" if "skipped" in found else "passes"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--real", required=True, help="a Python with the real Mooncake")
    parser.add_argument("--ours", default=sys.executable, help="a Python with our wheel; default this one")
    parser.add_argument("-k", dest="expression", help="as pytest's -k")
    given = parser.parse_args()
    # Of a virtual environment the link itself is meant. Pods start in another folder.
    given.real, given.ours = os.path.abspath(given.real), os.path.abspath(given.ours)
    if subprocess.run([given.real, "-c", NEEDED], check=False).returncode != 0:
        sys.exit(f"{given.real} lacks a package; see --help")
    # What the manifests say of schemas is about no program.
    selected = [f"--ignore={FOLDER / 'test_schema.py'}"]
    selected += ["-k", given.expression] if given.expression else []
    real, ours = verdicts(given.real, selected), verdicts(given.ours, selected)
    width = max(map(len, ours), default=4)
    print(f"{'test':{width}}  real     ours")
    for name in sorted({*real, *ours}):
        print(f"{name:{width}}  {real.get(name, '-'):7}  {ours.get(name, '-')}")
    missing = [name for name, result in real.items() if result == "passes" and ours.get(name) != "passes"]
    passed = [sum(result == "passes" for result in side.values()) for side in (real, ours)]
    print(f"{len(ours)} tests: the real one passes {passed[0]}, ours {passed[1]}")
    for name in missing:
        print(f"passes with the real one only: {name}")
    sys.exit(bool(missing))


if __name__ == "__main__":
    main()
