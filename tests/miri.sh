#!/usr/bin/env bash
# Tests of code that needs no kernel, interpreted by Miri, which notices undefined behaviour that happens to work.
# Needs a nightly compiler with two components: rustup toolchain install nightly --component miri --component rust-src
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if ! cargo +nightly miri --version >/dev/null 2>&1; then
    echo "miri: rustup toolchain install nightly --component miri --component rust-src" >&2
    exit 1
fi
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$PWD/target}/miri"
# Time and random numbers of the host; few cases of each property, because interpreting is slow.
export MIRIFLAGS="-Zmiri-disable-isolation -Zmiri-strict-provenance"
export PROPTEST_CASES=8
# Left out: what maps memory or asks the kernel. Kernels of this machine's vectors are left to the sanitizer.
cargo +nightly miri test --locked --package perigee-memory --lib -- \
    checksum:: copy:: regions:: size:: segment::parts:: memlock:: rendezvous::message
cargo +nightly miri test --locked --package perigee-activity --lib -- layout::
cargo +nightly miri test --locked --package perigee-schemas --lib
