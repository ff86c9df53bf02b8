#!/usr/bin/env bash
# The data plane's tests under AddressSanitizer. First a test that must fail: where it passes, nothing is looked at.
# Needs the sanitizer's runtime, which comes with the standard library of the pinned compiler on x86_64 and aarch64.
# PACKAGES="perigee-memory ..." chooses crates, TESTS="filter" tests.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

packages=${PACKAGES:-perigee-memory perigee-activity perigee-device perigee-reactor perigee-shard perigee-port perigee-mover
    perigee-verbs perigee-rdma perigee-rails perigee-ssd perigee-transfer perigee-engine perigee-store perigee-client}
triple=$(rustc -vV | sed -n 's/^host: //p')
runtime=$(find "$(rustc --print sysroot)/lib/rustlib/$triple/lib" -name 'librustc*_rt.asan.a' 2>/dev/null | head -1 || true)
if [ -z "$runtime" ]; then
    echo "sanitizer: this compiler has no AddressSanitizer for $triple; use rustup's, as rust-toolchain.toml names it" >&2
    exit 1
fi

# The option is an unstable one of the stable compiler. Objects of other flags would not fit, so they lie elsewhere.
export RUSTC_BOOTSTRAP=1
export RUSTFLAGS="-Zsanitizer=address -Cforce-frame-pointers=yes"
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$PWD/target}/sanitizer"
# Leaks are looked for by stopping all threads, which containers forbid; executors that are kept for the next shard would be
# reported, too.
export ASAN_OPTIONS="detect_leaks=0:detect_stack_use_after_return=1:abort_on_error=0"

log=$(mktemp)
trap 'rm -f "$log"' EXIT
if PERIGEE_SANITIZER=address cargo test --quiet --locked --target "$triple" --package perigee-memory --lib -- \
    --ignored --exact copy::tests::a_copy_past_the_end_of_its_target >"$log" 2>&1 ||
    ! grep -q "AddressSanitizer: heap-buffer-overflow" "$log"; then
    cat "$log"
    echo "sanitizer: a copy past the end of its target was not noticed" >&2
    exit 1
fi
echo "sanitizer: a copy past the end of its target was noticed"

chosen=()
for package in $packages; do
    chosen+=(--package "$package")
done
cargo nextest run --locked --target "$triple" "${chosen[@]}" --lib --tests ${TESTS:+"$TESTS"}
