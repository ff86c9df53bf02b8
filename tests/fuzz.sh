#!/usr/bin/env bash
# Fuzzes every decoder for SECONDS_EACH (60) and keeps what it finds in tests/fuzz/corpus.
# Coverage comes from the compiler's own pass, so the stable toolchain does; no sanitizer is used,
# because the decoders hold no unsafe code of ours.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly SECONDS_EACH=${SECONDS_EACH:-60}
readonly TARGET=${CARGO_TARGET_DIR:-$PWD/target}/fuzz
readonly DECODERS=(frame session message handshake document rails record traceparent)

command -v c++ >/dev/null || {
    echo "fuzz: libFuzzer is C++; install g++ (apt-get install g++)" >&2
    exit 1
}
RUSTFLAGS="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
-Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
-Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1" \
    cargo build --quiet --release --manifest-path tests/fuzz/Cargo.toml \
    --target-dir "$TARGET" --target "$(rustc -vV | sed -n 's/^host: //p')"
program=$(ls "$TARGET"/*/release/decoder)

for decoder in "${DECODERS[@]}"; do
    found=$TARGET/found/$decoder
    mkdir -p "$found"
    echo "== $decoder: $SECONDS_EACH s"
    if ! PERIGEE_DECODER=$decoder "$program" -max_total_time="$SECONDS_EACH" -max_len=4096 \
        -artifact_prefix="tests/fuzz/corpus/$decoder/" \
        "$found" "tests/fuzz/corpus/$decoder" >"$found.log" 2>&1; then
        tail -40 "$found.log" >&2
        echo "fuzz: $decoder failed; the input is kept as tests/fuzz/corpus/$decoder/crash-*" >&2
        exit 1
    fi
    echo "== $decoder: $(find "$found" -type f | wc -l) inputs found"
done
