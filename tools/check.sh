#!/usr/bin/env bash
# Lints, and the unit tests of the packages that changed since BASE: what to run between two edits. `make test` has the rest.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly BASE=${1:-$(git merge-base HEAD origin/main 2>/dev/null || git rev-parse HEAD)}
changed=$({ git diff --name-only "$BASE"; git ls-files --others --exclude-standard; } | sort -u)

# The packages that hold these files, as a filter of nextest; a file of none, such as Cargo.lock, stands for no package.
filter=$(cargo metadata --no-deps --format-version 1 | python3 -c '
import json, os, sys
metadata = json.load(sys.stdin)
root = metadata["workspace_root"]
folders = {os.path.dirname(package["manifest_path"]): package["name"] for package in metadata["packages"]}
packages = set()
for file in sys.argv[1].split():
    folder = os.path.dirname(os.path.join(root, file))
    while folder != root and folder not in folders:
        folder = os.path.dirname(folder)
    packages |= {folders[folder]} if folder in folders else set()
print(" | ".join(f"package({name})" for name in sorted(packages)))
' "$changed")

cargo fmt --all --check
cargo xtask tidy
cargo clippy --quiet --locked --profile test --workspace --all-targets -- -D warnings
if [ -z "$filter" ]; then
    echo "No package changed since $BASE: no unit tests"
else
    # The whole workspace is named, because other features would mean another build. The Python module has no unit tests, and
    # does not link without an interpreter.
    cargo nextest run --locked --workspace --exclude perigee-python --lib --bins --no-tests=pass \
        --filterset "$filter"
fi
