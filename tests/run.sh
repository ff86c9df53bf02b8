#!/usr/bin/env bash
# Lints and every test of the project; the closing line counts the tests.
# Needs what `make setup` installs and the wheel installed in VENV_RUN (`make test` sees to both).
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly TARGET=${CARGO_TARGET_DIR:-$PWD/target}
readonly PYTHON=${VENV_RUN:-$TARGET/venv-run}/bin/python
readonly LOGS=$TARGET/test-logs
readonly PYTHON_TIMEOUT_S=900
readonly EPOLL_TIMEOUT_S=1200
export PERIGEE_BIN=${PERIGEE_BIN:-$TARGET/release/perigee}
mkdir -p "$LOGS"

passed=0
failed=0
skipped=0
broken=()

# Runs a stage with its output on the terminal and in a log.
stage() {
    local name=$1
    shift
    echo "== $name"
    local started=$SECONDS
    if ! "$@" 2>&1 | tee "$LOGS/$name.log"; then
        broken+=("$name")
    fi
    echo "== $name: $((SECONDS - started)) s"
}

# Runs tests in Python. CI runs a failed one once more, and names it: see CONTRIBUTING.md.
python_stage() {
    local name=$1
    shift
    stage "$name" timeout "$PYTHON_TIMEOUT_S" "$PYTHON" -m pytest -q -p no:cacheprovider ${CI:+--reruns 1 -rR} "$@"
}

# Adds the number before WORD in the last summary line of a log that has one.
count() {
    local number
    number=$(sed 's/\x1b\[[0-9;]*m//g' "$LOGS/$1.log" | grep -E "$2" | tail -1 | grep -oE "[0-9]+ $3" | grep -oE '^[0-9]+')
    echo "${number:-0}"
}

stage lint tests/lint.sh
# The libraries for C that were built with the program; without them, tests take those of their own build.
libraries=()
for library in "$(dirname "$PERIGEE_BIN")"/lib{transfer_engine,mooncake_store}.so; do
    [ ! -f "$library" ] || libraries+=("$library")
done
[ ${#libraries[@]} != 2 ] || export PERIGEE_C_LIBRARIES=$(dirname "$PERIGEE_BIN")
stage wheel-needs cargo xtask needed "$PERIGEE_BIN" "${libraries[@]}" \
    "$("$PYTHON" -c 'import mooncake._perigee as m; print(m.__file__)')"
# Mooncake itself, in an environment of its own: what our engine must get along with.
export PERIGEE_REAL_MOONCAKE_PYTHON
PERIGEE_REAL_MOONCAKE_PYTHON=$("$PYTHON" -c 'import sys
sys.path.insert(0, "dataplane/python/tests")
from mooncake_venv import mooncake_python
print(mooncake_python())')
stage nextest cargo nextest run --locked --workspace
# Left out above, because they need the wheel.
stage nextest-mooncake cargo nextest run --locked --workspace --run-ignored only \
    --filterset 'package(perigee-engine) & binary(upstream)'
# What runs shards, once more without io_uring: not the tests of the automatic choice, and of the churn the one over TCP.
# It names the workspace, because other features would mean another build.
stage nextest-epoll env PERIGEE_REACTOR=epoll timeout "$EPOLL_TIMEOUT_S" cargo nextest run --locked --workspace \
    --filterset 'package(/^perigee-(reactor|shard|port|mover|transfer|rails|engine|store|service|node|tests)$/)
        - test(a_million_gets) - test(without_io_uring)'
stage doctest cargo test --quiet --locked --workspace --doc
python_stage pytest-wheel -c dataplane/python/pyproject.toml dataplane/python/tests
PERIGEE_PODS=long python_stage pytest-pods --rootdir tests/pods tests/pods
python_stage pytest-demo --rootdir bench/demo bench/demo/tests
python_stage pytest-side-by-side --rootdir bench/side_by_side bench/side_by_side/tests bench/plots/tests
python_stage pytest-agent --rootdir ebpf/agent ebpf/agent/tests
python_stage pytest-dashboards --rootdir tools/dashboards tools/dashboards/tests
python_stage pytest-docs --rootdir docs docs/tests
python_stage pytest-faults --rootdir ebpf/agent/faults ebpf/agent/faults

readonly PYTEST_SUMMARY=' in [0-9.]+s'
for log in nextest:'tests? run:' nextest-epoll:'tests? run:' "pytest-wheel:$PYTEST_SUMMARY" "pytest-pods:$PYTEST_SUMMARY" \
    "pytest-demo:$PYTEST_SUMMARY" \
    "pytest-side-by-side:$PYTEST_SUMMARY" "pytest-agent:$PYTEST_SUMMARY" \
    "pytest-dashboards:$PYTEST_SUMMARY" \
    "pytest-docs:$PYTEST_SUMMARY" "pytest-faults:$PYTEST_SUMMARY"; do
    name=${log%%:*}
    line=${log#*:}
    passed=$((passed + $(count "$name" "$line" passed)))
    failed=$((failed + $(count "$name" "$line" failed)))
    failed=$((failed + $(count "$name" "$line" 'timed out')))
    failed=$((failed + $(count "$name" "$line" 'errors?')))
    skipped=$((skipped + $(count "$name" "$line" skipped)))
done
with_mooncake=$(count nextest-mooncake 'tests? run:' passed)
passed=$((passed + with_mooncake))
failed=$((failed + $(count nextest-mooncake 'tests? run:' failed)))
# The first stage has counted them as skipped.
skipped=$((skipped - with_mooncake))
echo
for name in "${broken[@]}"; do
    echo "Stage $name failed; its log is $LOGS/$name.log"
done
# Those tests pass without doing anything then, and nextest does not show what they say.
[ -n "$(ls /sys/class/infiniband 2>/dev/null)" ] ||
    echo "SKIP: no RDMA device here for the tests on real verbs; \`make test-rdma\` runs them in a virtual machine"
echo "$passed passed, $failed failed, $skipped skipped"
[ ${#broken[@]} = 0 ] && [ "$failed" = 0 ] && [ "$passed" -gt 0 ]
