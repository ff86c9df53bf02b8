#!/usr/bin/env bash
# All lints, each run even when one before it failed.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

failures=0
check() {
    local name=$1
    shift
    if ! "$@"; then
        echo "lint: $name failed" >&2
        failures=$((failures + 1))
    fi
}

check fmt cargo fmt --all --check
# In the profile of the tests, so that build scripts and procedural macros are compiled once for both.
check clippy cargo clippy --quiet --locked --profile test --workspace --all-targets -- -D warnings
check tidy cargo xtask tidy
check codegen cargo xtask codegen --check
check dashboards cargo xtask dashboards --check
check advisories cargo xtask advisories
if command -v cargo-deny >/dev/null; then
    check deny cargo deny --log-level error check bans licenses sources
else
    echo "lint: skipped: licences and sources (deny.toml); \`make deny\` installs cargo-deny and checks them"
fi
exit $((failures > 0))
