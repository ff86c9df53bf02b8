#!/usr/bin/env python3
"""Writes snapshot.json: the RustSec advisories about the packages of Cargo.lock, as of the given checkout of the database.

    git clone --depth 1 https://github.com/rustsec/advisory-db
    tools/advisories/refresh.py advisory-db
"""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = "https://github.com/rustsec/advisory-db"


def git(checkout: Path, *arguments: str) -> str:
    command = ["git", "-C", str(checkout), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def locked() -> list[str]:
    lock = tomllib.loads((ROOT / "Cargo.lock").read_text())
    return sorted({package["name"] for package in lock["package"] if "source" in package})


def advisory(text: str) -> dict | None:
    """What the check needs of an advisory; nothing if it was withdrawn."""
    header = re.search(r"```toml\n(.*?)```", text, re.DOTALL)
    fields = tomllib.loads(header.group(1))
    about, versions = fields["advisory"], fields["versions"]
    if "withdrawn" in about:
        return None
    return {
        "id": about["id"],
        "package": about["package"],
        "safe": versions.get("patched", []) + versions.get("unaffected", []),
    }


def main() -> None:
    checkout = Path(sys.argv[1])
    # Read as objects of git, so that a checkout without a work tree will do, and local changes do not count.
    commit, date = git(checkout, "log", "-1", "--format=%H %cs").split()
    packages = locked()
    files = git(checkout, "ls-tree", "-r", "--name-only", "HEAD", "crates").splitlines()
    known = set(packages)
    about = [name for name in files if name.split("/")[1] in known]
    found = [advisory(git(checkout, "show", f"HEAD:{name}")) for name in about]
    lines = [json.dumps(one) for one in found if one]
    snapshot = (
        "{\n"
        f' "source": {json.dumps(SOURCE)},\n "commit": {json.dumps(commit)},\n "date": {json.dumps(date)},\n'
        ' "advisories": [\n  ' + ",\n  ".join(lines) + "\n ],\n"
        ' "packages": [\n  ' + ",\n  ".join(json.dumps(name) for name in packages) + "\n ]\n}\n"
    )
    (ROOT / "tools/advisories/snapshot.json").write_text(snapshot)
    print(f"{len(lines)} advisories about {len(packages)} packages, of {date}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main()
