#!/usr/bin/env bash
# Runs unmodified client classes of inference engines against a Perigee cluster on loopback.
# They come from the package index into target/venv-clients: several gigabytes, once.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

readonly TARGET=${CARGO_TARGET_DIR:-$PWD/target}
readonly VENV=$TARGET/venv-clients
readonly REQUIREMENTS=tests/clients/requirements.txt
readonly SGLANG=sglang==0.5.23

wheel=$(ls "$TARGET"/wheels/*.whl)
if ! cmp -s "$REQUIREMENTS" "$VENV/requirements.stamp"; then
    python3 -m venv "$VENV"
    "$VENV/bin/python" -m pip install --quiet -r "$REQUIREMENTS"
    "$VENV/bin/python" -m pip install --quiet --no-deps "$SGLANG"
    cp "$REQUIREMENTS" "$VENV/requirements.stamp"
fi
"$VENV/bin/python" -m pip install --quiet --force-reinstall --no-deps "$wheel"
exec "$VENV/bin/python" -m pytest -q -p no:cacheprovider --rootdir tests/clients tests/clients
