#!/usr/bin/env bash
# Unmodified client classes of SGLang, LMCache and vLLM against Perigee clusters on loopback.
# They come from the package index into target/venv-clients: 8 GB, once. Arguments go to pytest.
#
# PERIGEE_CLIENTS_CONTROL=mooncake-transfer-engine-non-cuda==0.3.13.post1 puts Mooncake itself in the
# place of Perigee: whatever fails then is wrong in the tests, not in Perigee.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

readonly TARGET=${CARGO_TARGET_DIR:-$PWD/target}
readonly VENV=$TARGET/venv-clients
readonly PYTHON=$VENV/bin/python
readonly REQUIREMENTS=tests/clients/requirements.txt
readonly LOG=$TARGET/test-logs/clients.log
readonly TIMEOUT_S=2400
export PYTHONDONTWRITEBYTECODE=1

if ! cmp -s "$REQUIREMENTS" "$VENV/requirements.stamp"; then
    rm -rf "$VENV"
    python3 -m venv "$VENV"
    "$PYTHON" -m pip install --quiet --no-deps -r "$REQUIREMENTS" \
        || { echo "error: pip could not install $REQUIREMENTS" >&2; exit 1; }
    cp "$REQUIREMENTS" "$VENV/requirements.stamp"
fi
# Both packages own the name mooncake, so only one of them may be there.
"$PYTHON" -m pip uninstall --quiet --yes perigee-mooncake mooncake-transfer-engine-non-cuda 2>/dev/null
"$PYTHON" -m pip install --quiet --no-deps "${PERIGEE_CLIENTS_CONTROL:-$(ls "$TARGET"/wheels/*.whl)}"

mkdir -p "$(dirname "$LOG")"
status=0
timeout "$TIMEOUT_S" "$PYTHON" -m pytest -q -p no:cacheprovider --rootdir tests/clients \
    tests/clients "$@" 2>&1 | tee "$LOG" || status=$?

# Adds up the numbers before WORD in pytest's closing line.
count() {
    tail -1 "$LOG" | grep -oE "[0-9]+ $1" | grep -oE '^[0-9]+' || echo 0
}
failed=$(($(count failed) + $(count 'errors?')))
[ "$status" = 0 ] || [ "$failed" -gt 0 ] || echo "The tests did not end by themselves: $status" >&2
echo "$(count passed) passed, $failed failed, $(count skipped) skipped"
[ "$status" = 0 ]
